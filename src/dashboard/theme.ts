/** Light, dark, or as the system has it. Kept in this browser, set on the root element before the first paint of ours. */
import { useSyncExternalStore } from "react"

export const themes = ["system", "light", "dark"] as const
export type Theme = (typeof themes)[number]

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
