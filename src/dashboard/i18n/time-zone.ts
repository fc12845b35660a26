/** The account's time zone, in which days begin and end; before sign-in the browser's. */
import { createContext, useContext } from "react"

export const TimeZoneContext = createContext(Intl.DateTimeFormat().resolvedOptions().timeZone)

export const useTimeZone = (): string => useContext(TimeZoneContext)
