/** The terms, privacy and refund texts, which are pages of the server: links to them, alone and in a sentence. */
import { texts, useLanguage } from "../i18n/language.tsx"

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
