/** The language that the page is in: the account's; a visitor's own choice; the browser's. */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { type ReactNode, useCallback, useState } from "react"
import { api } from "../api/client.ts"
import { isSignedOut, told } from "../api/failure.ts"
import { accountQuery } from "../api/queries.ts"
import { type Language, LanguageProvider, preferredLanguage } from "../i18n/language.tsx"

const STORED = "loket.language"

export function PreferredLanguage({ children }: { readonly children: ReactNode }) {
  const client = useQueryClient()
  const { data, error } = useQuery(accountQuery)
  const [visitors, setVisitors] = useState(() => preferredLanguage(localStorage.getItem(STORED), navigator.languages))
  const account = isSignedOut(error) ? undefined : data
  const signedIn = account !== undefined
  const choose = useCallback(
    (language: Language) => {
      localStorage.setItem(STORED, language)
      setVisitors(language)
      if (!signedIn) return
      client.setQueryData(accountQuery.queryKey, (known) => known && { ...known, language })
      // What the account then has is what it shows, also when it could not be changed.
      void told(api.account.patch({ language }))
        .catch(() => {})
        .then(() => client.invalidateQueries(accountQuery))
    },
    [client, signedIn],
  )
  return (
    <LanguageProvider language={account?.language ?? visitors} choose={choose}>
      {children}
    </LanguageProvider>
  )
}
