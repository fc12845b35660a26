/**
 * The page's two languages. A dictionary has one value for each, of the same shape: a missing text is a type error.
 * The language is the account's, or a visitor's own choice, else the browser's (`shell/preferences.tsx`).
 */
import { createContext, type ReactNode, useContext, useEffect, useMemo } from "react"

export const languages = ["id", "en"] as const
export type Language = (typeof languages)[number]

interface LanguageChoice {
  readonly language: Language
  readonly choose: (language: Language) => void
}

const Context = createContext<LanguageChoice>({ language: "id", choose() {} })

export const useLanguage = (): LanguageChoice => useContext(Context)

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
