/** Calls that were refused before they reached a model: why an app fails, and what to do. They have no receipt. */
import { keepPreviousData, useQuery } from "@tanstack/react-query"
import { CircleCheck, Info } from "lucide-react"
import type { ReactNode } from "react"
import { ApiFailure } from "../../api/client.ts"
import { Button } from "../../components/button.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { indonesianFor } from "../../components/text.ts"
import { EmptyState, ErrorState, Skeleton, Stale } from "../../components/feedback.tsx"
import { Card, Facts } from "../../components/layout.tsx"
import { formatName, Tag } from "../../components/values.tsx"
import { useFormat, texts, useLanguage } from "../../i18n/language.tsx"
import { type AddressedView, nothingFiltered } from "./address.ts"
import {
  LONGEST,
  type RefusedCall,
  refusedCallQuery,
  refusedQuery,
  useKeyName,
  useRefusedPages,
  useViewName,
} from "./data.ts"
import { Newest } from "./calls.tsx"

/** The message of an error code, in the page's language. */
function useWords(): (call: Pick<RefusedCall, "code" | "error">) => string {
  const { language } = useLanguage()
  return ({ code, error }) => (language === "id" ? (indonesianFor(code) ?? error) : error)
}

/** What is known to help with an error; undefined where nothing is. */
export function useKnownAdvice(): (code: string) => string | undefined {
  const { advice } = useRefusedText()
  return (code) => advice[code as keyof typeof advice]
}

/** What to do about a refusal. */
function useAdvice(): (call: Pick<RefusedCall, "code" | "retryable">) => string {
  const { again, ask } = useRefusedText()
  const known = useKnownAdvice()
  return ({ code, retryable }) => known(code) ?? (retryable ? again : ask)
}

/** Says that there were some, and leads to them. */
export function RefusedNotice({ view, change }: AddressedView) {
  const text = useRefusedText()
  const format = useFormat()
  const { data } = useQuery(refusedQuery({ ...view, ...nothingFiltered }))
  const total = data?.counts.reduce((sum, { calls }) => sum + calls, 0) ?? 0
  if (total === 0) return null
  return (
    <div className="usage-refusals">
      <span>{text.someRefused(format.number(total), total === 1)}</span>
      <Button size="small" onClick={() => change({ ...nothingFiltered, status: "refused" })}>
        {text.why}
      </Button>
    </div>
  )
}

export function RefusedCalls({ view, change, open }: AddressedView) {
  const text = useRefusedText()
  const format = useFormat()
  const viewName = useViewName()
  const { data, error, refetch, isPlaceholderData } = useQuery({
    ...refusedQuery(view),
    placeholderData: keepPreviousData,
  })
  const { older, toNewest } = useRefusedPages(view)
  const columns = useColumns()
  const cursor = data?.nextCursor
  const isLong = data !== undefined && data.calls.length >= LONGEST
  return (
    <Card title={text.title} flush action={<span className="usage-hint">{text.hint}</span>}>
      <Stale of={isPlaceholderData && data ? viewName(data.of) : undefined} className="usage-calls usage-refused">
        {data !== undefined && data.counts.length > 0 && (
          <div className="usage-counts">
            {data.counts.map(({ code, calls }) => (
              <Button
                key={code}
                size="small"
                aria-pressed={view.error === code}
                onClick={() => change({ error: view.error === code ? undefined : code })}
              >
                <code>{code}</code> {format.number(calls)}
              </Button>
            ))}
          </div>
        )}
        <Newest unseen={data?.newest?.unseen} toNewest={toNewest} />
        <DataTable
          caption={text.title}
          columns={columns}
          rows={data?.calls}
          rowKey={(call) => call.request_id}
          error={older.error ?? error}
          retry={older.error && cursor ? () => older.load(cursor) : refetch}
          onOpen={(call) => open(call.request_id)}
          more={cursor && !isLong ? { load: () => older.load(cursor), busy: older.busy } : undefined}
          empty={
            <EmptyState icon={<CircleCheck />} title={text.none}>
              {text.noneHint}
            </EmptyState>
          }
        />
        {isLong && cursor !== null && <p className="usage-longest">{text.longest(format.number(LONGEST))}</p>}
      </Stale>
    </Card>
  )
}

function useColumns(): readonly Column<RefusedCall>[] {
  const text = useRefusedText()
  const format = useFormat()
  const keyName = useKeyName()
  const words = useWords()
  return [
    {
      id: "model",
      head: text.model,
      names: true,
      cell: (call) => (
        <span className="usage-call">
          {call.model === null ? <span>{text.noModel}</span> : <code>{call.model}</code>}
          <span>{keyName(call.key_id)}</span>
        </span>
      ),
    },
    { id: "time", head: text.time, cell: (call) => format.moment(call.refused_at) },
    { id: "why", head: text.reason, cell: (call) => words(call) },
    { id: "status", head: text.status, numeric: true, cell: ({ status }) => <Tag tone="bad">{status}</Tag> },
  ]
}

/** One refused call, or the children where it is none that was kept. */
export function RefusedRecord({ requestId, children }: { readonly requestId: string; readonly children: ReactNode }) {
  const { data, error, refetch } = useQuery(refusedCallQuery(requestId))
  if (data !== undefined) return <Known call={data} />
  if (error instanceof ApiFailure && error.code === "usage.not_found") return children
  return error ? <ErrorState error={error} retry={refetch} /> : <Skeleton lines={8} />
}

function Known({ call }: { readonly call: RefusedCall }) {
  const text = useRefusedText()
  const format = useFormat()
  const keyName = useKeyName()
  const words = useWords()
  const advice = useAdvice()
  return (
    <>
      <div className="call-head">
        <p className="call-refusal">{words(call)}</p>
        <Tag tone="bad">{call.status}</Tag>
      </div>
      <section className="call-notice">
        <Info aria-hidden="true" />
        <div>
          <h3>{text.whatToDo}</h3>
          <p>{advice(call)}</p>
        </div>
      </section>
      <Facts
        title={text.details}
        facts={[
          { name: text.code, value: <code>{call.code}</code> },
          { name: text.time, value: format.moment(call.refused_at) },
          { name: text.model, value: call.model === null ? text.noModel : <code>{call.model}</code> },
          { name: text.key, value: keyName(call.key_id) },
          { name: text.format, value: formatName(call.endpoint) },
        ]}
      />
      <p className="usage-hint">{text.free}</p>
    </>
  )
}

const useRefusedText = texts({
  id: {
    title: "Panggilan yang ditolak",
    hint: "Disimpan 7 hari; jika banyak, hanya sebagian yang ditampilkan.",
    someRefused: (count: string, _one: boolean) => `${count} panggilan ditolak sebelum sampai ke model.`,
    why: "Lihat sebabnya",
    none: "Tidak ada panggilan yang ditolak",
    noneHint: "Panggilan yang ditolak, misalnya karena saldo kurang, muncul di sini dalam beberapa detik.",
    longest: (count: string) => `Daftar ini berhenti di ${count} panggilan. Persempit rentangnya, atau unduh CSV.`,
    model: "Model",
    noModel: "tidak terbaca",
    time: "Waktu",
    status: "Status",
    reason: "Sebab",
    key: "Kunci API",
    format: "Format",
    code: "Kode kesalahan",
    details: "Rincian",
    whatToDo: "Yang bisa Anda lakukan",
    free: "Panggilan ini tidak diteruskan ke model dan tidak ditagih.",
    again: "Coba lagi sebentar lagi.",
    ask: "Cari ID permintaan ini di log aplikasi Anda. Jika tetap gagal, kirim ID ini ke operator.",
    advice: {
      "auth.api_key_revoked":
        "Kunci ini sudah dicabut atau diganti. Buat kunci di halaman Kunci API, lalu pasang di aplikasi Anda.",
      "auth.api_key_expired": "Beri kunci ini waktu lagi di halaman Kunci API, atau buat kunci lain.",
      "auth.key_not_allowed":
        "Kunci ini terikat pada model, format, jaringan, atau tarif lain. Ubah di halaman Kunci API, atau pakai kunci lain.",
      "auth.account_frozen": "Hubungi operator. Saldo Anda tidak hilang.",
      "billing.insufficient_balance": "Isi saldo di halaman Dompet, lalu kirim ulang permintaannya.",
      "quota.key_limit_exceeded":
        "Naikkan batas pengeluaran kunci ini di halaman Kunci API, atau tunggu sampai periodenya berganti.",
      "rate_limit.rpm_exceeded":
        "Tunggu selama yang disebut header Retry-After, kurangi permintaan per menit, atau naikkan batas kunci ini di halaman Kunci API.",
      "rate_limit.tpm_exceeded":
        "Tunggu selama yang disebut header Retry-After, perkecil prompt atau max_tokens, atau naikkan batas token kunci ini di halaman Kunci API.",
      "gateway.capacity":
        "Coba lagi sesudah satu detik. Jika sering terjadi, kirim lebih sedikit permintaan sekaligus.",
      "model.unknown": "Salin ID model dari halaman Model. Huruf besar dan kecil dibedakan.",
      "request.invalid":
        "Pesan yang diterima aplikasi menyebut bagian yang salah. Cari ID permintaan ini di log aplikasi Anda.",
      "request.invalid_request":
        "Pesan yang diterima aplikasi menyebut bagian yang salah. Cari ID permintaan ini di log aplikasi Anda.",
      "request.unsupported_feature": "Hapus fitur itu dari permintaan, atau pilih model lain di halaman Model.",
      "request.too_large": "Percakapan mungkin sudah terlalu panjang. Ringkas, atau kirim berkas yang lebih kecil.",
      "upstream.context_length_exceeded": "Ringkas percakapannya, atau pilih model dengan konteks yang lebih besar.",
      "upstream.rate_limited":
        "Tunggu selama yang disebut header Retry-After. Jika sering terjadi, pilih model lain di halaman Model.",
      "dependency.upstream_unavailable":
        "Coba lagi sebentar lagi, atau pilih model lain. Jika tetap gagal, kirim ID permintaan ini ke operator.",
      "dependency.upstream_unconfigured": "Pilih model lain, atau hubungi operator.",
      "dependency.database_unavailable": "Ini gangguan sementara di pihak kami. Coba lagi sebentar lagi.",
    },
  },
  en: {
    title: "Refused calls",
    hint: "Kept for 7 days; of many, a sample is shown.",
    someRefused: (count: string, one: boolean) =>
      `${count} ${one ? "call was" : "calls were"} refused before reaching a model.`,
    why: "See why",
    none: "No refused calls",
    noneHint: "Calls that are refused, for want of balance for instance, appear here within seconds.",
    longest: (count: string) => `This list ends at ${count} calls. Narrow the range, or download the CSV.`,
    model: "Model",
    noModel: "not read",
    time: "Time",
    status: "Status",
    reason: "Reason",
    key: "API key",
    format: "Format",
    code: "Error code",
    details: "Details",
    whatToDo: "What you can do",
    free: "This call did not reach a model, and nothing was charged.",
    again: "Try again in a moment.",
    ask: "Look for this request ID in your app's log. If it keeps failing, send this ID to the operator.",
    advice: {
      "auth.api_key_revoked":
        "This key was revoked or replaced. Create a key on the API keys page, and put it into your app.",
      "auth.api_key_expired": "Give this key more time on the API keys page, or create another.",
      "auth.key_not_allowed":
        "This key is bound to other models, formats, networks or rates. Change it on the API keys page, or use another key.",
      "auth.account_frozen": "Contact the operator. Your balance is not lost.",
      "billing.insufficient_balance": "Top up on the Wallet page, then send the request again.",
      "quota.key_limit_exceeded":
        "Raise this key's spending limit on the API keys page, or wait until its period is over.",
      "rate_limit.rpm_exceeded":
        "Wait as long as the Retry-After header says, send fewer requests a minute, or raise this key's limit on the API keys page.",
      "rate_limit.tpm_exceeded":
        "Wait as long as the Retry-After header says, shorten the prompt or max_tokens, or raise this key's token limit on the API keys page.",
      "gateway.capacity": "Try again after a second. If it happens often, send fewer requests at once.",
      "model.unknown": "Copy the model's ID from the Models page. Upper and lower case differ.",
      "request.invalid":
        "The message that your app received names the part that is wrong. Look for this request ID in its log.",
      "request.invalid_request":
        "The message that your app received names the part that is wrong. Look for this request ID in its log.",
      "request.unsupported_feature":
        "Leave the feature out of the request, or choose another model on the Models page.",
      "request.too_large": "The conversation may have grown too long. Shorten it, or send smaller files.",
      "upstream.context_length_exceeded": "Shorten the conversation, or choose a model with a larger context window.",
      "upstream.rate_limited":
        "Wait as long as the Retry-After header says. If it happens often, choose another model on the Models page.",
      "dependency.upstream_unavailable":
        "Try again in a moment, or choose another model. If it keeps failing, send this request ID to the operator.",
      "dependency.upstream_unconfigured": "Choose another model, or contact the operator.",
      "dependency.database_unavailable": "This is a passing fault on our side. Try again in a moment.",
    },
  },
})
