/** The receipt of a paid top-up, for printing: on paper there is only the receipt. */
import { useQuery } from "@tanstack/react-query"
import { ArrowLeft, Download, Printer } from "lucide-react"
import { useParams } from "wouter"
import { Logo } from "../../appearance.tsx"
import { Button, ButtonLink, DownloadLink } from "../../components/button.tsx"
import { EmptyState, Skeleton } from "../../components/feedback.tsx"
import { Page } from "../../components/layout.tsx"
import { useFormat, useTimeZone } from "../../i18n/format.ts"
import { useAccount } from "../../shell/session.tsx"
import { NotThere } from "./payment-page.tsx"
import { useWalletText } from "./text.ts"
import { BreakdownLines, RefundLines, type TopUp, topUpQuery, useMethodName } from "./top-up.tsx"

export default function ReceiptPage() {
  const text = useWalletText()
  const { id = "" } = useParams()
  const { data: topUp, error, refetch } = useQuery(topUpQuery(id))
  return (
    <Page
      key={topUp?.status}
      title={text.receiptTitle}
      actions={
        <>
          <ButtonLink to={`/wallet/${id}`} kind="quiet" icon={<ArrowLeft />}>
            {text.topUp}
          </ButtonLink>
          {topUp?.status === "paid" && (
            <DownloadLink href={`/top-ups/${id}/receipt.pdf`} icon={<Download />}>
              {text.pdf}
            </DownloadLink>
          )}
          {topUp?.status === "paid" && (
            <Button kind="primary" icon={<Printer />} onClick={() => window.print()}>
              {text.print}
            </Button>
          )}
        </>
      }
    >
      {topUp !== undefined ? (
        topUp.status === "paid" ? (
          <Receipt topUp={topUp} />
        ) : (
          <EmptyState title={text.notPaid} action={<ButtonLink to={`/wallet/${id}`}>{text.toPayment}</ButtonLink>}>
            {text.notPaidHint}
          </EmptyState>
        )
      ) : error === null ? (
        <Skeleton lines={8} />
      ) : (
        <NotThere error={error} retry={refetch} />
      )}
    </Page>
  )
}

function Receipt({ topUp }: { readonly topUp: TopUp }) {
  const text = useWalletText()
  const format = useFormat()
  const zone = useTimeZone()
  const account = useAccount()
  const methodName = useMethodName()
  const { id, provider, reference, paid_at: paid, breakdown } = topUp
  const facts: readonly (readonly [string, string])[] = [
    [text.number, id],
    ...(paid === null ? [] : [[text.paidAt, format.dateTime(paid)] as const]),
    [text.receiptFor, account.email],
    [text.account, account.id],
    [text.method, methodName(provider)],
    ...(reference === null || reference === id ? [] : [[text.reference, reference] as const]),
  ]
  return (
    <article className="top-up-receipt card" aria-label={text.receiptOf}>
      <header>
        <Logo />
        <div>
          <p className="top-up-receipt-product">Loket</p>
          <h2>{text.receiptOf}</h2>
        </div>
      </header>
      <dl className="top-up-receipt-facts">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <BreakdownLines breakdown={breakdown} />
      <RefundLines refunds={topUp.refunds} />
      <footer>
        <p>{text.receiptFoot}</p>
        <p>{text.zone(zone)}</p>
      </footer>
    </article>
  )
}
