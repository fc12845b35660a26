/** One call, from its final record: its cost and how it adds up, its outcome and its details. */
import { useQuery } from "@tanstack/react-query"
import { CornerDownRight, Info, SearchX } from "lucide-react"
import type { ReactNode } from "react"
import { ApiFailure } from "../../api/client.ts"
import { Button, CopyButton } from "../../components/button.tsx"
import { Drawer } from "../../components/dialog.tsx"
import { EmptyState, ErrorState, Skeleton } from "../../components/feedback.tsx"
import { Facts } from "../../components/layout.tsx"
import { indonesianFor } from "../../components/text.ts"
import { formatName, Money, StatusTag } from "../../components/values.tsx"
import { useFormat, useLanguage } from "../../i18n/language.tsx"
import { useCallText } from "./call-text.ts"
import { type CallDetail, callQuery, useKeyName } from "./data.ts"
import { RefusedRecord, useKnownAdvice } from "./refused.tsx"
import { RunOfCall } from "./calls.tsx"

interface CallDrawerProps {
  readonly requestId: string
  readonly onClose: () => void
}

export function CallDrawer({ requestId, onClose }: CallDrawerProps) {
  const text = useCallText()
  return (
    <Drawer title={text.title} onClose={onClose}>
      <LoadedCall requestId={requestId} />
    </Drawer>
  )
}

function LoadedCall({ requestId }: { readonly requestId: string }) {
  const text = useCallText()
  const { data, error, isFetching, refetch } = useQuery(callQuery(requestId))
  return (
    <>
      <p className="call-id">
        <code>{requestId}</code>
        <CopyButton text={requestId} what={text.requestId} />
      </p>
      {data !== undefined ? (
        <CallRecord call={data} />
      ) : error instanceof ApiFailure && error.code === "usage.not_found" ? (
        <RefusedRecord requestId={requestId}>
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
        </RefusedRecord>
      ) : error ? (
        <ErrorState error={error} retry={refetch} />
      ) : (
        <Skeleton lines={8} />
      )}
    </>
  )
}

interface CallRecordProps {
  readonly call: CallDetail
  /** For who sees another's call: how its keys are called. Their runs are not to be had. */
  readonly keyName?: (id: string) => string
}

export function CallRecord({ call, keyName }: CallRecordProps) {
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
      {call.run_id !== undefined && keyName === undefined && <RunOfCall id={call.run_id} />}
      <Details call={call} {...(keyName && { keyName })} />
    </>
  )
}

function Details({ call, keyName: given }: CallRecordProps) {
  const text = useCallText()
  const format = useFormat()
  const own = useKeyName()
  const keyName = given ?? own
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

type Of = { readonly call: CallDetail }

/** Why a call cost nothing, or less than its tokens. */
function Outcome({ call }: Of) {
  const text = useCallText()
  const format = useFormat()
  const { status, absorbed_micro: absorbed, charge_micro: charge } = call
  const why = text.why[status as keyof typeof text.why] as string | undefined
  if (status !== "ok") {
    return (
      <Notice title={text.uncharged} code={call.error_code}>
        {why}
      </Notice>
    )
  }
  if (absorbed > 0) {
    return <Notice title={text.absorbedTitle}>{text.absorbedWhy(format.rupiah(absorbed, "exact"))}</Notice>
  }
  return charge === 0 ? <Notice title={text.uncharged}>{text.why.free}</Notice> : null
}

interface NoticeProps {
  readonly title: string
  readonly code?: string | null
  readonly children: ReactNode
}

function Notice({ title, code = null, children }: NoticeProps) {
  return (
    <section className="call-notice">
      <Info aria-hidden="true" />
      <div>
        <h3>{title}</h3>
        <p>{children}</p>
        {code !== null && <ErrorCode code={code} />}
      </div>
    </section>
  )
}

/** An error's code, what it means and what to do. */
function ErrorCode({ code }: { readonly code: string }) {
  const text = useCallText()
  const { language } = useLanguage()
  const meaning = language === "id" ? indonesianFor(code) : undefined
  const advice = useKnownAdvice()(code)
  return (
    <>
      <p className="call-notice-code">
        {text.errorCode}: <code>{code}</code>
      </p>
      {meaning !== undefined && <p>{meaning}</p>}
      {advice !== undefined && <p>{advice}</p>}
    </>
  )
}

/** The models of a call that was rerouted. */
function Route({ call }: Of) {
  const text = useCallText()
  if (call.markers.length === 0) return null
  return (
    <section className="facts">
      <h3>{text.route}</h3>
      <ol className="call-route">
        {call.markers.map(({ model, status }) => (
          <li key={model}>
            <code>{model}</code>
            <span>{status === "fallback_oversize" ? text.rerouted.fallback_oversize : text.rerouted.fallback_429}</span>
          </li>
        ))}
        <li>
          <CornerDownRight aria-hidden="true" />
          <code>{call.model}</code>
          <span>{call.status === "ok" ? text.answered : text.triedLast}</span>
        </li>
      </ol>
      {call.status === "ok" && <p className="usage-hint">{text.routeNote}</p>}
    </section>
  )
}

const buckets = [
  { name: "input", tokens: "input_tokens", money: "input_micro" },
  { name: "cacheRead", tokens: "cache_read_tokens", money: "cache_read_micro" },
  { name: "cacheWrite", tokens: "cache_write_tokens", money: "cache_write_micro" },
  { name: "output", tokens: "output_tokens", money: "output_micro" },
] as const

const MILLION = 1_000_000n

/**
 * A call's cost as a sum that can be checked by hand: tokens × rate of each bucket, less what the house absorbed. Every digit is
 * shown. A call without any cost shows only its token counts.
 */
function Receipt({ call }: { readonly call: CallDetail }) {
  const text = useCallText()
  const format = useFormat()
  if (call.status !== "ok" && call.absorbed_micro === 0) return <Counts call={call} />
  return (
    <section className="facts">
      <h3 id="call-sum-title">{text.sum}</h3>
      <table className="call-sum" aria-labelledby="call-sum-title">
        <thead>
          <tr>
            <th scope="col">{text.bucket}</th>
            <th scope="col">
              {text.rate}
              <span>{text.rateOfOne}</span>
            </th>
            <th scope="col">{text.amount}</th>
          </tr>
        </thead>
        <tbody>
          {buckets.map(({ name, tokens, money }) => (
            <tr key={name} className={call[tokens] === 0 ? "is-nothing" : undefined}>
              <th scope="row">
                {text.buckets[name]}
                <span>{text.tokens(format.number(call[tokens]), call[tokens] === 1)}</span>
              </th>
              <td>
                <Money micro={BigInt(call.rates[money]) * MILLION} form="exact" />
                <span>{format.rupiah(call.rates[money], "exact")}</span>
              </td>
              <td>
                <Money micro={call.amounts[money]} form="exact" />
              </td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          {call.absorbed_micro > 0 && (
            <>
              <Line name={text.subtotal} micro={BigInt(call.charge_micro) + BigInt(call.absorbed_micro)} />
              <Line name={text.absorbed} micro={-BigInt(call.absorbed_micro)} />
            </>
          )}
          <Line name={text.total} micro={BigInt(call.charge_micro)} total />
        </tfoot>
      </table>
    </section>
  )
}

interface LineProps {
  readonly name: string
  readonly micro: bigint
  readonly total?: boolean
}

const Line = ({ name, micro, total = false }: LineProps) => (
  <tr className={total ? "is-total" : undefined}>
    <th scope="row" colSpan={2}>
      {name}
    </th>
    <td>
      <Money micro={micro} form="exact" />
    </td>
  </tr>
)

function Counts({ call }: { readonly call: CallDetail }) {
  const text = useCallText()
  const format = useFormat()
  if (buckets.every(({ tokens }) => call[tokens] === 0)) return null
  return (
    <Facts
      title={text.tokensUncharged}
      facts={buckets.map(({ name, tokens }) => ({ name: text.buckets[name], value: format.number(call[tokens]) }))}
    />
  )
}
