/** One top-up: its QR code while it can be paid, and what became of it. Changes by itself when the payment comes. */
import { useQuery } from "@tanstack/react-query"
import { ArrowLeft } from "lucide-react"
import { Link, useParams } from "wouter"
import { ApiFailure } from "../../api/failure.ts"
import { ButtonLink } from "../../components/button.tsx"
import { EmptyState } from "../../components/empty-state.tsx"
import { ErrorState } from "../../components/error-state.tsx"
import { Page } from "../../components/page.tsx"
import { Skeleton } from "../../components/skeleton.tsx"
import { useShellText } from "../../shell/text.ts"
import { topUpQuery } from "./data.ts"
import { TopUpDetails } from "./details.tsx"
import { Expired, Paid } from "./outcome.tsx"
import { PayByQr } from "./pay-by-qr.tsx"
import { useWalletText } from "./text.ts"

export default function PaymentPage() {
  const text = useWalletText()
  const { id = "" } = useParams()
  const { data: topUp, error, dataUpdatedAt, refetch } = useQuery(topUpQuery(id))
  return (
    <Page
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
            <PayByQr key={topUp.id} topUp={topUp} toldAt={dataUpdatedAt} over={() => void refetch()} />
          )}
          {topUp.status === "paid" && <Paid topUp={topUp} />}
          {topUp.status === "expired" && <Expired topUp={topUp} />}
          <TopUpDetails topUp={topUp} />
        </>
      )}
    </Page>
  )
}

/** An address of nobody's top-up, or of another's. */
export function NotThere({ error, retry }: { readonly error: Error; readonly retry: () => unknown }) {
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
