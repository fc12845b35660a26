/**
 * Amounts, whole numbers, dates and lines of text as people read them, and as they type them into fields. Numbers have the digit groups of the
 * page's language: `12.345,67` in Indonesian, `12,345.67` in English. Dates are day/month/year in both.
 *
 * Then calendar days and clock times in the account's time zone. A day is text, such as 2026-11-21: a `Date` would attach a time
 * zone to it.
 */

/**
 * `plain`: two decimals from Rp 1 up, below that as many as are needed. `column`: always two decimals, so that amounts stand comma
 * under comma; what is less than half of the last one is "< Rp 0,01". `exact`: every digit there is. `whole`: no decimals. Where
 * digits are left out the last one is rounded to the nearest, so that what was spent and what is left add up.
 */
export type RupiahForm = "plain" | "column" | "exact" | "whole"

const DECIMALS = 2

/**
 * Rupiah from micro-rupiah (1 Rp = 1,000,000 micro), digit by digit and never through a float: `Rp 12.345,67` in Indonesian,
 * `Rp 12,345.67` in English.
 */
export function formatRupiah(micro: number | bigint, language: Language, form: RupiahForm = "plain"): string {
  const amount = BigInt(micro)
  const size = amount < 0n ? -amount : amount
  const places = decimalPlaces(size, form)
  const rounded = roundedTo(size, places)
  const isTiny = form === "column" && rounded === 0n && size > 0n
  const digits = (isTiny ? 10n ** BigInt(MICRO_DIGITS - DECIMALS) : rounded).toString().padStart(MICRO_DIGITS + 1, "0")
  const [group, point] = language === "id" ? [".", ","] : [",", "."]
  const grouped = digits.slice(0, -MICRO_DIGITS).replace(/\B(?=(?:\d{3})+$)/g, group)
  const shown = digits.slice(-MICRO_DIGITS).slice(0, places)
  // A real minus sign, and spaces that do not break.
  const sign = amount < 0n && (rounded > 0n || isTiny) ? "\u2212" : ""
  return `${isTiny ? "<\u00A0" : ""}${sign}Rp\u00A0${grouped}${shown === "" ? "" : point + shown}`
}

/** How many decimals an amount is shown with. */
function decimalPlaces(size: bigint, form: RupiahForm): number {
  if (form === "whole") return 0
  if (form === "column") return DECIMALS
  const needed = size.toString().padStart(MICRO_DIGITS, "0").slice(-MICRO_DIGITS).replace(/0+$/, "").length
  const isSmall = size < 10n ** BigInt(MICRO_DIGITS)
  return form === "exact" || isSmall || needed === 0 ? needed : DECIMALS
}

/** To the nearest; halves go up. Still in micro-rupiah. */
function roundedTo(size: bigint, places: number): bigint {
  const unit = 10n ** BigInt(MICRO_DIGITS - places)
  return ((size + unit / 2n) / unit) * unit
}

const MICRO_DIGITS = 6

/**
 * A typed amount: an optional `Rp`, the whole part, and up to six decimals. A text that means something else in the other
 * language (`1.5` in Indonesian) does not match: the page does not guess.
 */
const AMOUNTS = {
  id: /^(?:Rp)?(\d{1,3}(?:\.\d{3})+|\d+)(?:,(\d{1,6}))?$/i,
  en: /^(?:Rp)?(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d{1,6}))?$/i,
} as const

/** The languages whose digit groups are known. */
type Language = keyof typeof AMOUNTS

/** A typed amount of rupiah, in micro-rupiah; undefined when it is not an amount. */
export function parseRupiah(text: string, language: Language): bigint | undefined {
  const [, whole, fraction = ""] = AMOUNTS[language].exec(text.replaceAll(/\s/g, "")) ?? []
  return whole === undefined ? undefined : BigInt(whole.replaceAll(/\D/g, "") + fraction.padEnd(MICRO_DIGITS, "0"))
}

/** What a typed amount is read as, where the page's other language makes a thousand times as much of it: `50.000` is fifty in English. */
export function smallReading(text: string, language: Language): bigint | undefined {
  const read = parseRupiah(text, language)
  const other = parseRupiah(text, language === "id" ? "en" : "id")
  return read !== undefined && other !== undefined && read < other ? read : undefined
}

/** A typed whole number of at most 15 digits; undefined when it is not one. */
export function parseWhole(text: string, language: Language): number | undefined {
  const [, whole, fraction] = AMOUNTS[language].exec(text.replaceAll(/\s/g, "")) ?? []
  const digits = whole?.replaceAll(/\D/g, "") ?? ""
  return digits === "" || digits.length > 15 || fraction !== undefined || /[Rr]p/.test(text)
    ? undefined
    : Number(digits)
}

/** Micro-rupiah as a field has them: every digit, without the currency. */
export const amountText = (micro: number | bigint, language: Language): string =>
  formatRupiah(micro, language, "exact").replace(/^Rp\s/, "")

/** A typed amount as it is written in another language; what is none stays as it is. */
export function amountIn(language: Language, text: string, was: Language): string {
  const micro = parseRupiah(text, was)
  return micro === undefined ? text : amountText(micro, language)
}

/** The same of some fields of a form. */
export const amountsIn = <Field extends string, Values extends Readonly<Record<Field, string>>>(
  language: Language,
  values: Values,
  was: Language,
  fields: readonly Field[],
): Values => ({
  ...values,
  ...Object.fromEntries(fields.map((field) => [field, amountIn(language, values[field], was)])),
})

/**
 * A typed line, such as a name, without what copying takes along unseen: white space around it, and the controls of the text's direction, which the API
 * refuses.
 */
export const typedLine = (text: string): string => text.replaceAll(/[\u202a-\u202e\u2066-\u2069]/g, "").trim()

const MOMENT =
  /^(?:(\d{1,2})[/.-](\d{1,2})[/.-](\d{4})|(\d{4})-(\d{2})-(\d{2}))(?:[\s,T]+(\d{1,2})[.:](\d{2})(?:[.:](\d{2}))?)?$/

/**
 * A typed day, `21/11/2026`, or with `timed` a day and a clock time, `21/11/2026 14.30`; as ISO 8601 has it too. The answer is
 * `2026-11-21` or `2026-11-21T14:30:00`; undefined when it is none, or there is no such day.
 */
export function parseMoment(text: string, timed: boolean): string | undefined {
  const match = MOMENT.exec(text.trim())
  if (match === null) return undefined
  const [day = "", month = "", year = ""] = match[1] === undefined ? [match[6], match[5], match[4]] : match.slice(1, 4)
  const [hour, minute, second = "00"] = match.slice(7)
  if (timed !== (hour !== undefined)) return undefined
  const date = `${year}-${month.padStart(2, "0")}-${day.padStart(2, "0")}`
  const moment = timed ? `${date}T${hour?.padStart(2, "0")}:${minute}:${second}` : date
  const ms = Date.parse(timed ? `${moment}Z` : moment)
  // The 31st of a shorter month would be a day of the next one.
  return Number.isNaN(ms) || new Date(ms).toISOString().slice(0, 10) !== date ? undefined : moment
}

/** A day, or a day and a clock time, as a field has it: `21/11/2026 14.30`, in English `21/11/2026 14:30`. */
export function momentText(moment: string, language: Language): string {
  const [date = "", time = ""] = moment.split("T")
  const clock = time.replace(/^(\d\d:\d\d):00$/, "$1").replaceAll(":", language === "id" ? "." : ":")
  return [date.split("-").toReversed().join("/"), clock].filter((part) => part !== "").join(" ")
}

const DAY_MS = 86_400_000

/** A range of days, both ends included. */
export interface Days {
  readonly from: string
  readonly to: string
}

/** The current day in a time zone. */
export const dayIn = (timeZone: string, now: number): string =>
  // Swedish dates have the format of ISO 8601.
  new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short" }).format(now)

/** The day so many days later. */
export const later = (day: string, count: number): string =>
  new Date(Date.parse(day) + count * DAY_MS).toISOString().slice(0, 10)

/** The last `count` days up to today. */
export const lastDays = (today: string, count: number): Days => ({ from: later(today, 1 - count), to: today })

/** As many days as these, up to the day before them. */
export const daysBefore = (days: Days): Days => ({ from: later(days.from, -dayCount(days)), to: later(days.from, -1) })

/** The days of the month before with the numbers of those that this month has had: of a shorter month all. */
export function sameDaysLastMonth(today: string): Days {
  const last = later(`${today.slice(0, 7)}-01`, -1)
  const month = last.slice(0, 7)
  const same = `${month}-${today.slice(8)}`
  return { from: `${month}-01`, to: same < last ? same : last }
}

/** `count` days from `from` on. */
export const daysOf = (from: string, count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => later(from, index))

export const USUAL_DAYS = 7
const DAY = /^\d{4}-\d{2}-\d{2}$/
/** The 31st of a shorter month would be taken for a day of the next one. */
const isDay = (text: string): boolean => DAY.test(text) && parseMoment(text, false) === text

export const dayCount = ({ from, to }: Days): number => Math.round((Date.parse(to) - Date.parse(from)) / DAY_MS) + 1

/** The most days that an address may have as a number. */
const MOST_COUNTED = 366

/** Whether an address has a range as a number of days, so that it moves with the calendar: one up to today. A longer one than it may count has its ends. */
export const isCounted = (days: Days, today: string): boolean => days.to === today && dayCount(days) <= MOST_COUNTED

/** The first day that a range may begin with: a chart of a hundred years would be drawn for minutes. */
export const earliest = (today: string): string => later(today, -10 * MOST_COUNTED)

/** The days in an address: from one to another, or the last so many. Invalid values are ignored, and so are ranges that no field would take. */
export function daysIn(query: URLSearchParams, today: string): Days {
  const [from, to] = [query.get("from") ?? "", query.get("to") ?? ""]
  if (isDay(from) && isDay(to) && from <= to && from >= earliest(today)) return { from, to }
  const count = Number(query.get("days") ?? USUAL_DAYS)
  return lastDays(today, Number.isInteger(count) && count >= 1 && count <= MOST_COUNTED ? count : USUAL_DAYS)
}

/** The time that a clock shows in a time zone, as ISO 8601 has it without a zone: 2026-11-21T10:15:30. */
export const wallTimeIn = (timeZone: string, ms: number): string =>
  // Swedish dates have the format of ISO 8601.
  new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "medium" }).format(ms).replace(" ", "T")

/**
 * The moment when a clock in the time zone shows this, in milliseconds since 1970; undefined when the text is not a time.
 * A time that a clock change skips gives the moment as far after the change. A time that comes twice gives one of the two.
 */
export function instantOf(wall: string, timeZone: string): number | undefined {
  const asUtc = Date.parse(`${wall}Z`)
  if (Number.isNaN(asUtc)) return undefined
  const aheadAt = (ms: number) => Date.parse(`${wallTimeIn(timeZone, ms)}Z`) - Math.floor(ms / 1_000) * 1_000
  // The offset depends on the moment, which is not known yet. A second look-up corrects the first near a clock change.
  return asUtc - aheadAt(asUtc - aheadAt(asUtc))
}
