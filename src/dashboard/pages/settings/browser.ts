/** What the page asks of the browser: the time zones that it knows, and what it calls itself. */
import type { Language } from "../../i18n/language.tsx"

/** All time zones, and the account's own if the browser does not know it. */
export function timeZonesWith(own: string): readonly string[] {
  const known = ["UTC", ...Intl.supportedValuesOf("timeZone").filter((zone) => zone !== "UTC")]
  return known.includes(own) ? known : [own, ...known]
}

const LOCALES = { id: "id-ID", en: "en-GB" } as const satisfies Record<Language, string>
const described = new Map<string, string>()

/** "GMT+7 · Waktu Indonesia Barat". */
export function describeZone(zone: string, language: Language): string {
  const key = `${language} ${zone}`
  const known = described.get(key)
  if (known !== undefined) return known
  const description = [
    ...new Set([named(zone, LOCALES[language], "shortOffset"), named(zone, LOCALES[language], "long")]),
  ]
    .filter((name) => name !== "")
    .join(" · ")
  described.set(key, description)
  return description
}

export const zoneName = (zone: string): string => zone.replaceAll("_", " ")

/** Each word that is searched for must be somewhere in the zone's name, its description, or its abbreviation. */
export function zoneMatches(zone: string, query: string, language: Language): boolean {
  const words = plain(query).split(" ").filter(Boolean)
  const about = plain(`${zone} ${describeZone(zone, language)} ${named(zone, LOCALES.id, "short")}`)
  return words.every((word) => about.includes(word))
}

const plain = (text: string): string => text.toLowerCase().replaceAll(/[_/\s]+/g, " ")

/** A browser may not know a zone that the server does. */
function named(zone: string, locale: string, timeZoneName: "shortOffset" | "short" | "long"): string {
  try {
    const parts = new Intl.DateTimeFormat(locale, { timeZone: zone, timeZoneName }).formatToParts()
    return parts.find(({ type }) => type === "timeZoneName")?.value ?? ""
  } catch {
    return ""
  }
}

/** In this order: many claim to be those below them too. */
const BROWSERS = [
  ["Edge", /\bEdg(?:e|A|iOS)?\//],
  ["Opera", /\bOPR\//],
  ["Samsung Internet", /\bSamsungBrowser\//],
  ["Firefox", /\b(?:Firefox|FxiOS)\//],
  ["Chrome", /\b(?:HeadlessChrome|Chrome|CriOS)\//],
  ["Safari", /\bSafari\//],
  ["curl", /^curl\//],
] as const

const SYSTEMS = [
  ["iPhone", /\biPhone\b/],
  ["iPad", /\biPad\b/],
  ["Android", /\bAndroid\b/],
  ["ChromeOS", /\bCrOS\b/],
  ["Windows", /\bWindows\b/],
  ["macOS", /\bMac OS X\b/],
  ["Linux", /\bLinux\b/],
] as const

interface Device {
  readonly browser: string | undefined
  readonly system: string | undefined
}

export const deviceOf = (userAgent: string): Device => ({
  browser: BROWSERS.find(([, pattern]) => pattern.test(userAgent))?.[0],
  system: SYSTEMS.find(([, pattern]) => pattern.test(userAgent))?.[0],
})
