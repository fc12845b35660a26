/**
 * How the page looks to whoever uses it: fonts, theme, logo and language, and the switches of theme and language. Fonts and theme
 * are set before the first paint; the theme is kept in this browser.
 *
 * And links to the terms, privacy and refund texts, which are pages of the server: in a row, and in a sentence.
 */
import mono from "@fontsource-variable/geist-mono/files/geist-mono-latin-wght-normal.woff2"
import sans from "@fontsource-variable/geist/files/geist-latin-wght-normal.woff2"
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { useSyncExternalStore, type ReactNode, useCallback, useState } from "react"
import { api, isSignedOut, unwrap } from "../api/client.ts"
import { accountQuery } from "../api/queries.ts"
import { Choice } from "../components/form.tsx"
import { type Language, LanguageProvider, languages, preferredLanguage, texts, useLanguage } from "../i18n/language.tsx"
import { useShellText } from "./text.ts"

/**
 * The fonts are not in the style sheet, because the bundler would put them into it as data. They are asked for now, and not when the first words
 * are laid out in another font, which they would then move.
 */
export function addFonts(): void {
  const look: FontFaceDescriptors = { weight: "100 900", display: "swap" }
  for (const [name, file] of [
    ["Geist", sans],
    ["Geist Mono", mono],
  ] as const) {
    const font = new FontFace(name, `url("${file}")`, look)
    document.fonts.add(font)
    // Without it the words stand in the system's own.
    font.load().catch(() => {})
  }
}

/** `system`: as the browser says. */
const themes = ["system", "light", "dark"] as const
type Theme = (typeof themes)[number]

const STORED_THEME = "loket.theme"
const listeners = new Set<() => void>()

const storedTheme = (): Theme => themes.find((known) => known === localStorage.getItem(STORED_THEME)) ?? "system"

export function applyTheme(): void {
  const theme = storedTheme()
  if (theme === "system") delete document.documentElement.dataset["theme"]
  else document.documentElement.dataset["theme"] = theme
}

function chooseTheme(theme: Theme): void {
  localStorage.setItem(STORED_THEME, theme)
  applyTheme()
  for (const listener of listeners) listener()
}

const subscribe = (listener: () => void) => {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

const useTheme = (): readonly [Theme, (theme: Theme) => void] => [
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

const NAMES: Readonly<Record<Language, string>> = { id: "Indonesia", en: "English" }

export function LanguageSwitch() {
  const text = useShellText()
  const { language, choose } = useLanguage()
  return (
    <Choice
      label={text.language}
      values={languages}
      chosen={language}
      nameOf={(value) => NAMES[value]}
      onChoose={choose}
    />
  )
}

export function ThemeSwitch() {
  const text = useShellText()
  const [theme, choose] = useTheme()
  return (
    <Choice
      label={text.theme}
      values={themes}
      chosen={theme}
      nameOf={(value) => text.themes[value]}
      onChoose={choose}
    />
  )
}

const STORED_LANGUAGE = "loket.language"

/** A page of the server that leads here says which language it was read in. */
function visitorsLanguage(): Language {
  const read = languages.find((language) => language === new URLSearchParams(location.search).get("lang"))
  if (read !== undefined) localStorage.setItem(STORED_LANGUAGE, read)
  return preferredLanguage(localStorage.getItem(STORED_LANGUAGE), navigator.languages)
}

/** The language of the page: that of whoever is signed in, else a visitor's own choice, else the browser's. */
export function PreferredLanguage({ children }: { readonly children: ReactNode }) {
  const client = useQueryClient()
  const { data, error } = useQuery(accountQuery)
  const [visitors, setVisitors] = useState(visitorsLanguage)
  const account = isSignedOut(error) ? undefined : data
  const signedIn = account !== undefined
  const choose = useCallback(
    (language: Language) => {
      localStorage.setItem(STORED_LANGUAGE, language)
      setVisitors(language)
      if (!signedIn) return
      client.setQueryData(
        accountQuery.queryKey,
        (known) => known && { ...known, signed_in: { ...known.signed_in, language } },
      )
      // If the change fails, the page returns to the account's language.
      void unwrap(api.account.patch({ language }))
        .catch(() => {})
        .then(() => client.invalidateQueries(accountQuery))
    },
    [client, signedIn],
  )
  return (
    <LanguageProvider language={account?.signed_in.language ?? visitors} choose={choose}>
      {children}
    </LanguageProvider>
  )
}

const topics = ["terms", "privacy", "refunds"] as const

/** In a row, such as at the foot of a page. */
export function LegalLinks() {
  const text = useLegalText()
  return (
    <nav className="legal-links" aria-label={text.label}>
      {topics.map((topic) => (
        <LegalLink key={topic} topic={topic} />
      ))}
    </nav>
  )
}

/** The three of them in the middle of a sentence. Each opens beside the form that is being filled in. */
export function LegalList() {
  const text = useLegalText()
  return (
    <>
      <LegalLink topic="terms" beside />, <LegalLink topic="privacy" beside />
      {text.and} <LegalLink topic="refunds" beside />
    </>
  )
}

function LegalLink({ topic, beside = false }: { readonly topic: (typeof topics)[number]; readonly beside?: boolean }) {
  const text = useLegalText()
  const { language } = useLanguage()
  return (
    <a href={`/${topic}?lang=${language}`} {...(beside && { target: "_blank", rel: "noopener" })}>
      {beside ? text.inSentence[topic] : text[topic]}
    </a>
  )
}

const useLegalText = texts({
  id: {
    label: "Ketentuan layanan ini",
    terms: "Ketentuan",
    privacy: "Privasi",
    refunds: "Pengembalian dana",
    inSentence: {
      terms: "ketentuan layanan",
      privacy: "kebijakan privasi",
      refunds: "ketentuan pengembalian dana",
    },
    and: ", dan",
  },
  en: {
    label: "The terms of this service",
    terms: "Terms",
    privacy: "Privacy",
    refunds: "Refunds",
    inSentence: { terms: "terms of service", privacy: "privacy policy", refunds: "refund policy" },
    and: ", and",
  },
})
