/** The page's fonts, theme and logo. Fonts and theme are set before the first paint; the theme is kept in this browser. */
import mono from "@fontsource-variable/geist-mono/files/geist-mono-latin-wght-normal.woff2" with { type: "file" }
import sans from "@fontsource-variable/geist/files/geist-latin-wght-normal.woff2" with { type: "file" }
import { useSyncExternalStore } from "react"

/** The fonts are not in the style sheet, because the bundler would put them into it as data. */
export function addFonts(): void {
  const look: FontFaceDescriptors = { weight: "100 900", display: "swap" }
  for (const [name, file] of [
    ["Geist", sans],
    ["Geist Mono", mono],
  ] as const) {
    document.fonts.add(new FontFace(name, `url("${file}")`, look))
  }
}

/** `system`: as the browser says. */
export const themes = ["system", "light", "dark"] as const
type Theme = (typeof themes)[number]

const STORED = "loket.theme"
const listeners = new Set<() => void>()

const storedTheme = (): Theme => themes.find((known) => known === localStorage.getItem(STORED)) ?? "system"

export function applyTheme(): void {
  const theme = storedTheme()
  if (theme === "system") delete document.documentElement.dataset["theme"]
  else document.documentElement.dataset["theme"] = theme
}

function chooseTheme(theme: Theme): void {
  localStorage.setItem(STORED, theme)
  applyTheme()
  for (const listener of listeners) listener()
}

const subscribe = (listener: () => void) => {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

export const useTheme = (): readonly [Theme, (theme: Theme) => void] => [
  useSyncExternalStore(subscribe, storedTheme),
  chooseTheme,
]

/** A ticket counter's window, and an L. */
export const Logo = () => (
  <svg className="logo" viewBox="0 0 32 32" aria-hidden="true">
    <rect width="32" height="32" rx="9" className="logo-ground" />
    <path d="M10 8h4.5v11.5H22V24H10z" className="logo-letter" />
    <circle cx="20.5" cy="11.5" r="3.5" className="logo-coin" />
  </svg>
)
