/** What a browser calls itself, in two words that its owner knows it by. Guesswork, and shown as no more than a name. */

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
