/** One call, told from its final record: what it cost and why, and how it went. */
import { useQuery } from "@tanstack/react-query"
import { SearchX } from "lucide-react"
import { ApiFailure } from "../../api/failure.ts"
import { Button } from "../../components/button.tsx"
import { CopyButton } from "../../components/copy-button.tsx"
import { Drawer } from "../../components/dialog.tsx"
import { EmptyState } from "../../components/empty-state.tsx"
import { ErrorState } from "../../components/error-state.tsx"
import { Facts } from "../../components/facts.tsx"
import { Money } from "../../components/money.tsx"
import { Skeleton } from "../../components/skeleton.tsx"
import { StatusTag } from "../../components/status-tag.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useCallText } from "./call-text.ts"
import { type CallDetail, callQuery } from "./data.ts"
import { useFormatName, useKeyName } from "./names.ts"
import { Outcome, Route } from "./outcome.tsx"
import { Receipt } from "./receipt.tsx"

interface CallDrawerProps {
  readonly requestId: string | undefined
  readonly onClose: () => void
}

export function CallDrawer({ requestId, onClose }: CallDrawerProps) {
  const text = useCallText()
  return (
    <Drawer open={requestId !== undefined} title={text.title} onClose={onClose}>
      {requestId !== undefined && <Asked key={requestId} requestId={requestId} />}
    </Drawer>
  )
}

function Asked({ requestId }: { readonly requestId: string }) {
  const text = useCallText()
  const { data, error, isFetching, refetch } = useQuery(callQuery(requestId))
  return (
    <>
      <p className="call-id">
        <code>{requestId}</code>
        <CopyButton text={requestId} what={text.requestId} />
      </p>
      {data !== undefined ? (
        <Told call={data} />
      ) : error instanceof ApiFailure && error.code === "usage.not_found" ? (
        <EmptyState
          icon={<SearchX />}
          title={text.notFound}
          action={
            <Button busy={isFetching} onClick={() => void refetch()}>
              {text.again}
            </Button>
          }
        >
          {text.notFoundHint}
        </EmptyState>
      ) : error ? (
        <ErrorState error={error} retry={refetch} />
      ) : (
        <Skeleton lines={8} />
      )}
    </>
  )
}

function Told({ call }: { readonly call: CallDetail }) {
  const text = useCallText()
  return (
    <>
      <div className="call-head">
        <p className="call-charge">
          <Money micro={call.charge_micro} form="exact" />
          <span>{call.charge_micro > 0 ? text.charged : text.notCharged}</span>
        </p>
        <StatusTag status={call.status} />
      </div>
      <Outcome call={call} />
      <Receipt call={call} />
      <Route call={call} />
      <Details call={call} />
    </>
  )
}

function Details({ call }: { readonly call: CallDetail }) {
  const text = useCallText()
  const format = useFormat()
  const keyName = useKeyName()
  const formatName = useFormatName()
  const noted = (count: number, note: string) =>
    count > 1 ? `${format.number(count)} (${note})` : format.number(count)
  const priceId = format.number(call.price_id)
  return (
    <>
      <Facts
        title={text.times}
        facts={[
          { name: text.opened, value: `${format.date(call.created_at)}, ${format.time(call.created_at)}` },
          {
            name: text.firstToken,
            value: call.first_token_ms === null ? text.noFirstToken : format.duration(call.first_token_ms),
          },
          { name: text.duration, value: format.duration(call.duration_ms) },
        ]}
      />
      <Facts
        title={text.details}
        facts={[
          { name: text.model, value: <code>{call.model}</code> },
          { name: text.key, value: keyName(call.key_id) },
          { name: text.format, value: formatName(call.endpoint) },
          { name: text.streamed, value: call.streamed ? text.yes : text.no },
          { name: text.attempts, value: noted(call.attempts, text.attemptsNote) },
          { name: text.turns, value: noted(call.turns, text.turnsNote) },
          {
            name: text.price,
            value:
              call.price_effective_at === null
                ? `#${priceId}`
                : text.priceSince(priceId, format.dateTime(call.price_effective_at)),
          },
        ]}
      />
    </>
  )
}
