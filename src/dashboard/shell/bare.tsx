/** The frame of the sign-in and sign-up pages: no navigation, just the one thing to do. */
import type { ReactNode } from "react"
import { Link } from "wouter"
import { Logo } from "../appearance.tsx"
import { useLanguage } from "../i18n/language.tsx"
import { LegalLinks } from "./legal.tsx"
import { LanguageSwitch } from "./preferences.tsx"
import { useShellText } from "./text.ts"

export function BareFrame({ children }: { readonly children: ReactNode }) {
  const text = useShellText()
  const { language } = useLanguage()
  return (
    <div className="bare">
      <header className="bare-head">
        <a href={`/?lang=${language}`} className="brand">
          <Logo />
          {text.product}
        </a>
        <nav className="bare-links" aria-label={text.mainNavigation}>
          <Link href="/models">{text.navigation.models}</Link>
          <a href={`/docs?lang=${language}`}>{text.apiReference}</a>
        </nav>
      </header>
      <main>{children}</main>
      <footer className="bare-foot">
        <LegalLinks />
        <LanguageSwitch />
      </footer>
    </div>
  )
}
