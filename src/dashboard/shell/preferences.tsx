/** Language and theme: the switches, and the language that the page is in. */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { type ReactNode, useCallback, useState } from "react"
import { api, isSignedOut, unwrap } from "../api/client.ts"
import { accountQuery } from "../api/queries.ts"
import { themes, useTheme } from "../appearance.tsx"
import { Choice } from "../components/form.tsx"
import { type Language, LanguageProvider, languages, preferredLanguage, useLanguage } from "../i18n/language.tsx"
import { useShellText } from "./text.ts"

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

const STORED = "loket.language"

/** A page of the server that leads here says which language it was read in. */
function visitorsLanguage(): Language {
  const read = languages.find((language) => language === new URLSearchParams(location.search).get("lang"))
  if (read !== undefined) localStorage.setItem(STORED, read)
  return preferredLanguage(localStorage.getItem(STORED), navigator.languages)
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
      localStorage.setItem(STORED, language)
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
