/** All that is known of a top-up: what it cost, when, and by which names others know it. */
import { useQuery } from "@tanstack/react-query"
import { Card } from "../../components/card.tsx"
import { CopyButton } from "../../components/copy-button.tsx"
import { Facts } from "../../components/facts.tsx"
import { aboutQuery } from "../../api/queries.ts"
import { ContactLink } from "../../components/contact-link.tsx"
import { useFormat } from "../../i18n/format.ts"
import { BreakdownLines } from "./breakdown.tsx"
import type { TopUp } from "./data.ts"
import { TopUpStatus, useMethodName } from "./status.tsx"
import { useWalletText } from "./text.ts"

export function TopUpDetails({ topUp }: { readonly topUp: TopUp }) {
  const text = useWalletText()
  const format = useFormat()
  const methodName = useMethodName()
  const contact = useQuery(aboutQuery).data?.support_contact ?? undefined
  const { id, status, provider, reference, created_at: created, paid_at: paid, expires_at: expires, qr } = topUp
  const isLate = paid !== null && Date.parse(paid) > Date.parse(expires)
  const facts = [
    { name: text.columns.status, value: <TopUpStatus status={status} /> },
    { name: text.created, value: format.dateTime(created) },
    ...(paid === null
      ? []
      : [{ name: text.paidAt, value: isLate ? `${format.dateTime(paid)} (${text.paidLate})` : format.dateTime(paid) }]),
    { name: text.method, value: methodName(provider) },
    { name: text.number, value: <Copied text={id} what={text.number} /> },
    ...(reference === null || reference === id
      ? []
      : [{ name: text.reference, value: <Copied text={reference} what={text.reference} /> }]),
    ...(status === "pending" && qr !== null
      ? [{ name: text.qrText, value: <Copied text={qr.payload} what={text.qrText} /> }]
      : []),
  ]
  return (
    <div className="top-up-details">
      <Card title={text.breakdown}>
        <BreakdownLines breakdown={topUp.breakdown} />
      </Card>
      <Card title={text.details}>
        <Facts facts={facts} />
        {status !== "paid" && contact !== undefined && (
          <p className="pay-note">
            {text.supportHint} <ContactLink contact={contact}>{text.support}</ContactLink>
          </p>
        )}
      </Card>
    </div>
  )
}

const Copied = ({ text, what }: { readonly text: string; readonly what: string }) => (
  <span className="copied-fact">
    <code>{text}</code>
    <CopyButton text={text} what={what} />
  </span>
)
