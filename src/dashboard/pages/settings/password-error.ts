/** A password that was refused, in words; undefined for whatever else went wrong. */
import { ApiFailure, isSignedOut } from "../../api/failure.ts"
import { useFormat } from "../../i18n/format.ts"
import { useSettingsText } from "./text.ts"

export function usePasswordError(): (error: Error | null) => string | undefined {
  const text = useSettingsText()
  const format = useFormat()
  return (error) => {
    if (!(error instanceof ApiFailure) || !isSignedOut(error)) return undefined
    return error.retryAfterS === undefined ? text.passwordWrong : text.tooMany(format.number(error.retryAfterS))
  }
}
