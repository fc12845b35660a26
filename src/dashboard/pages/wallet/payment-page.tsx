/**
 * One top-up: its QR code while it can be paid, then its outcome, which changes by itself when the payment arrives; and its receipt.
 */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { ArrowLeft, CircleCheck, Clock, QrCode, Undo2, Download, Printer } from "lucide-react"
import { useEffect, useRef } from "react"
import { Link, useParams } from "wouter"
import { ApiFailure } from "../../api/client.ts"
import { aboutQuery } from "../../api/queries.ts"
import { Logo } from "../../shell/appearance.tsx"
import { ButtonLink, ContactLink, CopyButton, Button } from "../../components/button.tsx"
import { EmptyState, ErrorState, Skeleton } from "../../components/feedback.tsx"
import { Card, DownloadLink, Facts, Page } from "../../components/layout.tsx"
import { useFormat, useTimeZone } from "../../i18n/language.tsx"
import { useAccount, useMay } from "../../shell/session.tsx"
import { useShellText } from "../../shell/text.ts"
import { CheckPayment, PayByQr } from "./pay-by-qr.tsx"
import { useWalletText } from "./text.ts"
import { BreakdownLines, RefundLines, type TopUp, topUpQuery, TopUpStatus, useMethodName } from "./top-up.tsx"

export default function PaymentPage() {
  const text = useWalletText()
  const { id = "" } = useParams()
  const { data: topUp, error, dataUpdatedAt, refetch } = useQuery(topUpQuery(id))
  const before = useRef(topUp?.status)
  const client = useQueryClient()
  useEffect(() => {
    // It may have been found by asking for it, without an event that would say so.
    if (before.current !== undefined && before.current !== topUp?.status)
      for (const key of ["account", "statement", "summary"]) void client.invalidateQueries({ queryKey: [key] })
    // Who scrolled down to pay sees what became of it, which stands at the top. The button that had the focus is gone.
    if (before.current === "pending" && topUp?.status !== "pending") {
      window.scrollTo(0, 0)
      document.querySelector("main")?.focus({ preventScroll: true })
    }
    before.current = topUp?.status
  }, [client, topUp?.status])
  return (
    <Page
      key={topUp?.status}
      title={topUp === undefined || topUp.status === "pending" ? text.payTitle : text.topUp}
      actions={
        <Link href="/wallet" className="button button-quiet button-medium">
          <ArrowLeft aria-hidden="true" />
          {text.back}
        </Link>
      }
    >
      {topUp === undefined ? (
        error === null ? (
          <Skeleton lines={8} />
        ) : (
          <NotThere error={error} retry={refetch} />
        )
      ) : (
        <>
          {topUp.status === "pending" && (
            <PayByQr key={topUp.id} topUp={topUp} receivedAt={dataUpdatedAt} over={() => void refetch()} />
          )}
          {topUp.status === "paid" && <Paid topUp={topUp} />}
          {topUp.status === "expired" && <Expired topUp={topUp} />}
          <TopUpDetails topUp={topUp} />
        </>
      )}
    </Page>
  )
}

/** The address of a top-up that does not exist, or belongs to another account. */
function NotThere({ error, retry }: { readonly error: Error; readonly retry: () => unknown }) {
  const text = useWalletText()
  const shell = useShellText()
  if (!(error instanceof ApiFailure) || error.code !== "resource.not_found") {
    return <ErrorState error={error} retry={retry} />
  }
  return (
    <EmptyState title={shell.notFound} action={<ButtonLink to="/wallet">{text.back}</ButtonLink>}>
      {shell.notFoundHint}
    </EmptyState>
  )
}

/** A top-up that was paid, and what of it went back. */
function Paid({ topUp: { id, breakdown, refund_status: back, refunded_micro: refunded } }: { readonly topUp: TopUp }) {
  const text = useWalletText()
  const format = useFormat()
  const { balance_micro: balance, held_micro: held } = useAccount()
  return (
    <Card>
      <div className={back === null ? "outcome is-paid" : "outcome"}>
        {back === null ? <CircleCheck aria-hidden="true" /> : <Undo2 aria-hidden="true" />}
        <div role="status">
          <h2>{back === null ? text.paidTitle : text.refundStatuses[back]}</h2>
          <p>
            {back === null
              ? text.paid(format.rupiah(breakdown.balance_purchased_micro))
              : text.wentBack(format.rupiah(refunded), format.rupiah(breakdown.total_micro))}{" "}
            {text.balanceNow(format.rupiah(BigInt(balance) - BigInt(held)))}
          </p>
        </div>
        <div className="outcome-actions">
          <ButtonLink to={`/wallet/${id}/receipt`}>{text.receipt}</ButtonLink>
          <ButtonLink to="/keys" kind="primary">
            {text.toKeys}
          </ButtonLink>
        </div>
      </div>
    </Card>
  )
}

function Expired({ topUp }: { readonly topUp: TopUp }) {
  const text = useWalletText()
  const again = useMay()("pay") && (
    <ButtonLink to={`/wallet?amount=${BigInt(topUp.breakdown.balance_purchased_micro) / 1_000_000n}`} kind="primary">
      {text.again}
    </ButtonLink>
  )
  if (topUp.qr === null) {
    return (
      <Card>
        <EmptyState icon={<QrCode />} title={text.notMade} action={again}>
          {text.notMadeHint}
        </EmptyState>
      </Card>
    )
  }
  return (
    <Card>
      <div className="outcome">
        <Clock aria-hidden="true" />
        <div role="status">
          <h2>{text.expiredTitle}</h2>
          <p>{text.expired}</p>
        </div>
        <div className="outcome-actions">
          <CheckPayment topUp={topUp} />
          {again}
        </div>
      </div>
    </Card>
  )
}

/** Everything about a top-up: its cost, its times, and its ids. */
function TopUpDetails({ topUp }: { readonly topUp: TopUp }) {
  const text = useWalletText()
  const format = useFormat()
  const methodName = useMethodName()
  const contact = useQuery(aboutQuery).data?.support_contact ?? undefined
  const { id, status, provider, reference, created_at: created, paid_at: paid, expires_at: expires, qr } = topUp
  const isLate = paid !== null && Date.parse(paid) > Date.parse(expires)
  const facts = [
    { name: text.columns.status, value: <TopUpStatus status={status} refund_status={topUp.refund_status} /> },
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
        <RefundLines refunds={topUp.refunds} />
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

/** The receipt of a paid top-up, for printing: on paper there is only the receipt. */
export function ReceiptPage() {
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
