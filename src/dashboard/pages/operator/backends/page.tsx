/** How each provider's models do: the last minutes of the process that answers, followed live. */
import { queryOptions, useQuery } from "@tanstack/react-query"
import { ServerOff } from "lucide-react"
import { api } from "../../../api/client.ts"
import { told } from "../../../api/failure.ts"
import { Card } from "../../../components/card.tsx"
import { type Column, DataTable } from "../../../components/data-table.tsx"
import { EmptyState } from "../../../components/empty-state.tsx"
import { ErrorState } from "../../../components/error-state.tsx"
import { Skeleton } from "../../../components/skeleton.tsx"
import { Tag } from "../../../components/tag.tsx"
import { useFormat } from "../../../i18n/format.ts"
import { OperatorPage } from "../section.tsx"
import { useBackendsText } from "./text.ts"

const FOLLOW_MS = 10_000

const backendsQuery = queryOptions({
  queryKey: ["operator", "backends"],
  queryFn: () => told(api.operator.backends.get()),
  refetchInterval: FOLLOW_MS,
})
type Backends = Awaited<ReturnType<NonNullable<typeof backendsQuery.queryFn>>>
type Provider = Backends["data"][number]
type BackendModel = Provider["models"][number]

export default function BackendsPage() {
  const text = useBackendsText()
  const format = useFormat()
  const { data: backends, error, refetch } = useQuery(backendsQuery)
  return (
    <OperatorPage title={text.title} intro={backends && text.intro(format.number(backends.minutes))}>
      {backends === undefined ? (
        error ? (
          <ErrorState error={error} retry={refetch} />
        ) : (
          <Skeleton lines={8} />
        )
      ) : (
        <>
          {backends.data.length === 0 && <EmptyState icon={<ServerOff />} title={text.noBackends} />}
          {backends.data.map((provider) => (
            <ProviderCard key={provider.provider} provider={provider} />
          ))}
          <p className="operator-count">{text.process(backends.process_id)}</p>
        </>
      )}
    </OperatorPage>
  )
}

function ProviderCard({ provider }: { readonly provider: Provider }) {
  const text = useBackendsText()
  return (
    <Card title={provider.provider} flush action={<ProviderTags provider={provider} />}>
      <DataTable
        caption={provider.provider}
        columns={useColumns()}
        rows={provider.models}
        rowKey={({ model }) => model}
        empty={text.idle}
      />
    </Card>
  )
}

function ProviderTags({
  provider: { configured, calls, failures, rate_limited: limited },
}: {
  readonly provider: Provider
}) {
  const text = useBackendsText()
  const format = useFormat()
  return (
    <span className="operator-tags">
      {configured ? <Tag tone="good">{text.configured}</Tag> : <Tag tone="bad">{text.unconfigured}</Tag>}
      {calls > 0 && failures === 0 && <Tag>{text.healthy}</Tag>}
      {failures > 0 && <Tag tone="warn">{text.failing(format.number(failures), format.percent(failures / calls))}</Tag>}
      {limited > 0 && <Tag tone="warn">{`${text.rateLimited}: ${format.number(limited)}`}</Tag>}
    </span>
  )
}

function useColumns(): readonly Column<BackendModel>[] {
  const text = useBackendsText()
  const format = useFormat()
  const { columns: heads } = text
  const duration = (ms: number | null) => (ms === null ? "–" : format.duration(ms))
  return [
    { id: "model", head: heads.model, names: true, cell: ({ model }) => <code>{model}</code> },
    { id: "calls", head: heads.calls, numeric: true, cell: ({ calls }) => format.number(calls) },
    { id: "answered", head: heads.answered, numeric: true, cell: ({ answered }) => format.number(answered) },
    {
      id: "failures",
      head: heads.failures,
      numeric: true,
      cell: ({ failures }) => <span className={failures > 0 ? "is-bad" : undefined}>{format.number(failures)}</span>,
    },
    { id: "p50", head: heads.p50, numeric: true, cell: (model) => duration(model.first_token_p50_ms) },
    { id: "p95", head: heads.p95, numeric: true, cell: (model) => duration(model.first_token_p95_ms) },
    {
      id: "last",
      head: heads.last,
      cell: ({ last_failure: last }) =>
        last === null
          ? text.none
          : text.failure(
              text.classes[last.class],
              last.status === null ? "" : ` (${last.status})`,
              format.ago(last.at, Date.now()),
            ),
    },
  ]
}
