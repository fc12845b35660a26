/** Language and theme, each one press away. */
import { Choice } from "../components/choice.tsx"
import { type Language, languages, useLanguage } from "../i18n/language.tsx"
import { themes, useTheme } from "../theme.ts"
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
