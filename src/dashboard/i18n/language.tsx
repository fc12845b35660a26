/**
 * The page's two languages: texts, and numbers, times and money in the account's time zone. A dictionary has one value for each
 * language, of the same shape: a missing text is a type error. The language is the account's, or a visitor's own choice, else
 * the browser's (`shell/appearance.tsx`).
 */
import { createContext, type ReactNode, useContext, useEffect, useMemo, useState, useSyncExternalStore } from "react"
import { dayIn, formatRupiah, type RupiahForm } from "./figures.ts"

export const languages = ["id", "en"] as const
export type Language = (typeof languages)[number]

interface LanguageChoice {
  readonly language: Language
  readonly choose: (language: Language) => void
}

const Context = createContext<LanguageChoice>({ language: "id", choose() {} })

export const useLanguage = (): LanguageChoice => useContext(Context)

/**
 * For a form with amounts, while it is drawn: `rewrite` is called with the language before when the page has another one.
 * `20.000`, left as it stands, would be twenty in English.
 */
export function useLanguageChange(rewrite: (was: Language) => void): void {
  const { language } = useLanguage()
  const [was, setWas] = useState(language)
  if (was === language) return
  setWas(language)
  rewrite(was)
}

const isLanguage = (text: unknown): text is Language => languages.some((known) => known === text)

/** Indonesian, unless the browser's first language is another one. */
export function preferredLanguage(stored: string | null, asked: readonly string[]): Language {
  if (isLanguage(stored)) return stored
  const first = asked[0]?.toLowerCase() ?? "id"
  return /^(?:id|in|ms|jv|su)\b/.test(first) ? "id" : "en"
}

interface LanguageProviderProps extends LanguageChoice {
  readonly children: ReactNode
}

export function LanguageProvider({ language, choose, children }: LanguageProviderProps) {
  useEffect(() => {
    document.documentElement.lang = language
  }, [language])
  const choice = useMemo<LanguageChoice>(() => ({ language, choose }), [language, choose])
  return <Context value={choice}>{children}</Context>
}

type Texts = Readonly<Record<string, unknown>>
/** The same keys, and functions of the same parameters. */
type Same<T> = {
  readonly [Key in keyof T]: T[Key] extends string ? string : T[Key] extends Texts ? Same<T[Key]> : T[Key]
}

/** Makes a hook that returns the dictionary in the page's language. */
export function texts<T extends Texts>(both: { readonly id: T; readonly en: NoInfer<Same<T>> }): () => Same<T> {
  return () => {
    const { language } = useLanguage()
    return language === "id" ? (both.id as Same<T>) : both.en
  }
}

/** The account's time zone, in which days begin and end; before sign-in the browser's. */
export const TimeZoneContext = createContext(Intl.DateTimeFormat().resolvedOptions().timeZone)

export const useTimeZone = (): string => useContext(TimeZoneContext)

const LOOK_MS = 10_000

/** What the time makes of a page changes without a word from anywhere. */
function timePasses(look: () => void): () => void {
  const looking = setInterval(look, LOOK_MS)
  return () => clearInterval(looking)
}

/** The current day in the account's time zone, also when it has become another one while the page is open. */
export function useToday(): string {
  const timeZone = useTimeZone()
  return useSyncExternalStore(timePasses, () => dayIn(timeZone, Date.now()))
}

export interface Format {
  readonly rupiah: (micro: number | bigint, form?: RupiahForm) => string
  readonly number: (value: number) => string
  /** 1,2 jt; 1.2M. */
  readonly compact: (value: number) => string
  /** A share between 0 and 1. */
  readonly percent: (share: number) => string
  readonly date: (time: string | number | Date) => string
  /** A calendar day, such as 2026-11-21, as "21 Nov". */
  readonly shortDay: (day: string) => string
  /** "1–21 Nov". */
  readonly shortDays: (from: string, to: string) => string
  /** 21 Nov: where the year is clear from the context. */
  readonly day: (time: string | number | Date) => string
  /** November 2026. */
  readonly month: (time: string | number | Date) => string
  readonly dateTime: (time: string | number | Date) => string
  /** A date and a time with seconds. */
  readonly moment: (time: string | number | Date) => string
  /** A clock time with seconds. */
  readonly time: (time: string | number | Date) => string
  /** 850 ms, 2,4 s, 3 min. */
  readonly duration: (ms: number) => string
  /** "3 minutes ago". */
  readonly ago: (time: string | number | Date, now: number) => string
}

const LOCALES = { id: "id-ID", en: "en-GB" } as const satisfies Record<Language, string>
/** English numbers are grouped as in the United States, dates as in Britain. */
const NUMBER_LOCALES = { id: "id-ID", en: "en-US" } as const satisfies Record<Language, string>

const AGO = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
] as const

export function formatIn(language: Language, timeZone: string): Format {
  const locale = LOCALES[language]
  const numbers = NUMBER_LOCALES[language]
  const number = new Intl.NumberFormat(numbers)
  const compact = new Intl.NumberFormat(numbers, { notation: "compact", maximumFractionDigits: 1 })
  const percent = new Intl.NumberFormat(numbers, { style: "percent", maximumFractionDigits: 1 })
  const seconds = new Intl.NumberFormat(numbers, { maximumFractionDigits: 1 })
  const date = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeZone })
  const day = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", timeZone })
  const month = new Intl.DateTimeFormat(locale, { month: "long", year: "numeric", timeZone })
  // A calendar day is the same in every time zone.
  const shortDay = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", timeZone: "UTC" })
  const dateTime = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short", timeZone })
  const moment = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium", timeZone })
  const time = new Intl.DateTimeFormat(locale, { timeStyle: "medium", timeZone })
  const ago = new Intl.RelativeTimeFormat(locale, { numeric: "auto" })
  return {
    rupiah: (micro, form) => formatRupiah(micro, language, form),
    number: (value) => number.format(value),
    compact: (value) => compact.format(value),
    percent: (share) => percent.format(share),
    date: (at) => date.format(new Date(at)),
    shortDay: (day) => shortDay.format(new Date(day)),
    shortDays: (from, to) => shortDay.formatRange(new Date(from), new Date(to)),
    day: (at) => day.format(new Date(at)),
    month: (at) => month.format(new Date(at)),
    dateTime: (at) => dateTime.format(new Date(at)),
    moment: (at) => moment.format(new Date(at)),
    time: (at) => time.format(new Date(at)),
    duration: (ms) => {
      if (ms < 1_000) return `${number.format(Math.round(ms))} ms`
      if (ms < 60_000) return `${seconds.format(ms / 1_000)} ${language === "id" ? "dtk" : "s"}`
      return `${seconds.format(ms / 60_000)} ${language === "id" ? "mnt" : "min"}`
    },
    ago: (at, now) => {
      const passed = new Date(at).getTime() - now
      const [unit, length] = AGO.find(([, size]) => Math.abs(passed) >= size) ?? ["second", 1_000]
      return ago.format(Math.round(passed / length), unit)
    },
  }
}

/** "3 minutes ago", which becomes four while the page is open. */
export function useAgo(time: string): string {
  const { ago } = useFormat()
  return useSyncExternalStore(timePasses, () => ago(time, Date.now()))
}

export function useFormat(): Format {
  const { language } = useLanguage()
  const timeZone = useTimeZone()
  return useMemo(() => formatIn(language, timeZone), [language, timeZone])
}
