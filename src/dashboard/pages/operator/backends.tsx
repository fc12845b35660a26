/** The health of each provider's models: the last minutes as this process saw them, refetched all the time. */
import { queryOptions, useQuery } from "@tanstack/react-query"
import { ServerOff } from "lucide-react"
import { api, unwrap } from "../../api/client.ts"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { EmptyState, ErrorState, Skeleton } from "../../components/feedback.tsx"
import { Card } from "../../components/layout.tsx"
import { Tag } from "../../components/values.tsx"
import { useFormat } from "../../i18n/format.ts"
import { texts } from "../../i18n/language.tsx"
import { OperatorPage } from "./frame.tsx"

const FOLLOW_MS = 10_000

const backendsQuery = queryOptions({
  queryKey: ["operator", "backends"],
  queryFn: () => unwrap(api.operator.backends.get()),
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

export const useBackendsText = texts({
  id: {
    title: "Backend",
    intro: (minutes: string) =>
      `Setiap percobaan ke backend dalam ${minutes} menit terakhir, seperti dilihat proses yang menjawab. Satu panggilan dapat dicoba beberapa kali.`,
    process: (id: string) => `Dijawab oleh proses ${id}`,
    configured: "Siap",
    unconfigured: "Tanpa kunci",
    healthy: "Tanpa kegagalan",
    failing: (count: string, share: string) => `${count} gagal (${share})`,
    rateLimited: "Dibatasi (429)",
    none: "belum ada",
    idle: "Tidak ada percobaan dalam waktu ini",
    noBackends: "Tidak ada backend",
    columns: {
      model: "Model",
      calls: "Percobaan",
      answered: "Dijawab",
      failures: "Gagal",
      p50: "Token pertama p50",
      p95: "p95",
      last: "Kegagalan terakhir",
    },
    classes: {
      rate_limited: "dibatasi",
      refused_request: "permintaan ditolak",
      needs_attention: "kredensial atau kuota kita",
      timeout: "terlalu lama",
      unreachable: "tidak terjangkau",
      server_error: "kesalahan server",
      broken_answer: "jawaban terputus",
    },
    failure: (name: string, status: string, ago: string) => `${name}${status}, ${ago}`,
  },
  en: {
    title: "Backends",
    intro: (minutes: string) =>
      `Each try at a backend in the last ${minutes} minutes, as the process that answers saw it. One call may be tried several times.`,
    process: (id: string) => `Answered by process ${id}`,
    configured: "Configured",
    unconfigured: "No key",
    healthy: "No failures",
    failing: (count: string, share: string) => `${count} failed (${share})`,
    rateLimited: "Rate limited (429)",
    none: "none yet",
    idle: "No tries in this time",
    noBackends: "No backends",
    columns: {
      model: "Model",
      calls: "Tries",
      answered: "Answered",
      failures: "Failed",
      p50: "First token p50",
      p95: "p95",
      last: "Last failure",
    },
    classes: {
      rate_limited: "rate limited",
      refused_request: "request refused",
      needs_attention: "our credentials or quota",
      timeout: "timed out",
      unreachable: "unreachable",
      server_error: "server error",
      broken_answer: "broken answer",
    },
    failure: (name: string, status: string, ago: string) => `${name}${status}, ${ago}`,
  },
})
