/** The two steps before and after the code: the key that stands in it, and the call that it makes. */
import { queryOptions, useQuery, useQueryClient } from "@tanstack/react-query"
import { CircleAlert, CircleCheck, CircleDashed } from "lucide-react"
import { useState } from "react"
import { Link } from "wouter"
import { keysQuery, useChange } from "../../api/queries.ts"
import { api, unwrap } from "../../api/client.ts"
import { keepFreshKey, useFreshKey } from "../../api/browser.ts"
import { Button, CopyButton } from "../../components/button.tsx"
import { indonesianFor } from "../../components/text.ts"
import { ErrorState, Skeleton } from "../../components/feedback.tsx"
import { Money, StatusTag } from "../../components/values.tsx"
import { useFormat, texts, useLanguage } from "../../i18n/language.tsx"
import { useMay } from "../../shell/session.tsx"

/** Which key stands in the code, or how one gets there. */
export function OwnKey() {
  const text = useQuickStartText()
  const format = useFormat()
  const may = useMay()
  const client = useQueryClient()
  const keys = useQuery(keysQuery)
  const fresh = useFreshKey()
  const make = useChange({
    mutationFn: (name: string) => unwrap(api.keys.post({ name })),
    onSuccess: ({ key }) => {
      keepFreshKey(client, key)
      return client.invalidateQueries(keysQuery)
    },
  })
  if (keys.error) return <ErrorState error={keys.error} retry={keys.refetch} />
  if (keys.data === undefined) return <Skeleton lines={3} />
  if (fresh !== undefined) {
    const { secret, name } = fresh
    return (
      <>
        <p className="quick-start-state is-good">
          <CircleCheck aria-hidden="true" />
          <span>{text.keyInside(name)}</span>
          <CopyButton text={secret} what={text.key} />
        </p>
        <p className="quick-start-hint">{text.keyInsideHint}</p>
      </>
    )
  }
  const hasKey = keys.data.keys.some(({ status }) => status === "active")
  return (
    <>
      <p className="quick-start-hint">{hasKey ? text.keyHint : text.noKey}</p>
      {make.error && <ErrorState error={make.error} />}
      {may("build") && (
        <Button
          kind="primary"
          size="small"
          busy={make.isPending}
          onClick={() => make.mutate(text.keyName(format.dateTime(Date.now())))}
        >
          {text.makeKey}
        </Button>
      )}
    </>
  )
}

const latestCallQuery = queryOptions({
  queryKey: ["usage", "latest"],
  queryFn: async () => (await unwrap(api.usage.get({ query: { limit: 1 } }))).data[0] ?? null,
})

const latestRefusalQuery = queryOptions({
  queryKey: ["refused", "latest"],
  queryFn: async () => (await unwrap(api.usage.refused.get({ query: { limit: 1 } }))).data[0] ?? null,
})

/** Waits for a call, and says what has become of it: the account's first one, or the next. */
export function FirstCall() {
  const text = useQuickStartText()
  const call = useQuery(latestCallQuery)
  const refusal = useQuery(latestRefusalQuery)
  // What was there when the page was opened is no answer to what it says.
  const [known, setKnown] = useState<{ readonly call: string | undefined; readonly refusal: string | undefined }>()
  if (call.error) return <ErrorState error={call.error} retry={call.refetch} />
  if (call.data === undefined || (refusal.data === undefined && !refusal.error)) return <Skeleton lines={3} />
  if (known === undefined) {
    setKnown({ call: call.data?.request_id, refusal: refusal.data?.request_id })
    return null
  }
  const made = call.data?.request_id === known.call ? undefined : call.data
  const refused = refusal.data?.request_id === known.refusal ? undefined : refusal.data
  const isRefused = refused && (!made || refused.refused_at > made.created_at)
  return (
    <div className="quick-start-call" aria-live="polite">
      {isRefused ? (
        <Refused requestId={refused.request_id} code={refused.code} error={refused.error} />
      ) : made ? (
        <Made call={made} />
      ) : (
        <>
          <p className="quick-start-state">
            <CircleDashed aria-hidden="true" />
            <span>{call.data === null ? text.waiting : text.waitingAgain}</span>
          </p>
          <p className="quick-start-hint">{text.waitingHint}</p>
        </>
      )}
    </div>
  )
}

type Latest = NonNullable<Awaited<ReturnType<NonNullable<typeof latestCallQuery.queryFn>>>>

function Made({ call }: { readonly call: Latest }) {
  const text = useQuickStartText()
  const format = useFormat()
  const isGood = call.status === "ok"
  return (
    <>
      <p className={`quick-start-state ${isGood ? "is-good" : "is-bad"}`}>
        {isGood ? <CircleCheck aria-hidden="true" /> : <CircleAlert aria-hidden="true" />}
        <span>{isGood ? text.arrived : text.failed}</span>
        {!isGood && <StatusTag status={call.status} />}
      </p>
      <p className="quick-start-hint">
        <code>{call.model}</code> · {format.time(call.created_at)} · <Money micro={call.charge_micro} />
        {" · "}
        <Link href={`/usage?request=${call.request_id}`}>{text.receipt}</Link>
      </p>
    </>
  )
}

function Refused({
  requestId,
  code,
  error,
}: {
  readonly requestId: string
  readonly code: string
  readonly error: string
}) {
  const text = useQuickStartText()
  const { language } = useLanguage()
  return (
    <>
      <p className="quick-start-state is-bad">
        <CircleAlert aria-hidden="true" />
        <span>{text.refused}</span>
      </p>
      <p className="quick-start-hint">
        {(language === "id" && indonesianFor(code)) || error}{" "}
        <Link href={`/usage?status=refused&request=${requestId}`}>{text.why}</Link>
      </p>
    </>
  )
}

export const useQuickStartText = texts({
  id: {
    title: "Mulai cepat",
    intro:
      "Salin satu contoh, jalankan, lalu lihat centangnya muncul di sini. Contoh berlabel “Sudah dicoba” pernah kami jalankan sendiri.",
    address: "Alamat dasar",
    addressHint: "Format chat dan responses memakai alamat ini dengan /v1, format messages tanpa /v1.",
    key: "Kunci",
    keyInside: (name: string) => `Kunci “${name}” sudah ada di dalam kode.`,
    keyInsideHint: "Salin sekarang: kunci hanya ada di tab ini dan hilang setelah halaman dimuat ulang.",
    keyHint: "Ganti <API_KEY> di dalam kode dengan kunci Anda, atau buat kunci baru yang langsung terisi.",
    noKey: "Anda belum punya kunci. Buat satu, dan kuncinya langsung terisi di dalam kode.",
    keyName: (time: string) => `Mulai cepat, ${time}`,
    makeKey: "Buat kunci dan isikan",
    firstCall: "Panggilan pertama",
    waiting: "Menunggu panggilan pertama Anda…",
    waitingAgain: "Menunggu panggilan berikutnya…",
    waitingHint: "Jalankan salah satu contoh. Centangnya muncul sendiri begitu panggilan selesai.",
    arrived: "Berhasil! Panggilan Anda sudah masuk.",
    failed: "Panggilan Anda masuk, tetapi tidak selesai.",
    refused: "Panggilan Anda ditolak.",
    receipt: "Lihat rinciannya",
    why: "Lihat sebabnya",
    client: "Klien",
    model: "Model",
    terminal: "Terminal",
    noModel: "Tidak ada model yang dilayani dalam format ini.",
    tried: "Sudah dicoba",
    untried: "Belum kami coba",
    documentation: "Menurut dokumentasi pembuatnya",
  },
  en: {
    title: "Quick start",
    intro: "Copy an example, run it, and see the tick appear here. Those marked “Tried” we have run ourselves.",
    address: "Base address",
    addressHint: "The chat and responses formats use it with /v1, the messages format without.",
    key: "Key",
    keyInside: (name: string) => `The key “${name}” is inside the code.`,
    keyInsideHint: "Copy it now: the key is in this tab alone, and gone when the page is reloaded.",
    keyHint: "Put your key in the place of <API_KEY>, or make a new one that is filled in at once.",
    noKey: "You have no key yet. Make one, and it is filled in at once.",
    keyName: (time: string) => `Quick start, ${time}`,
    makeKey: "Make a key and fill it in",
    firstCall: "First call",
    waiting: "Waiting for your first call…",
    waitingAgain: "Waiting for your next call…",
    waitingHint: "Run one of the examples. The tick appears by itself as soon as the call has ended.",
    arrived: "It works! Your call has arrived.",
    failed: "Your call has arrived, but was not completed.",
    refused: "Your call was refused.",
    receipt: "See its receipt",
    why: "See why",
    client: "Client",
    model: "Model",
    terminal: "Terminal",
    noModel: "No model is served in this format.",
    tried: "Tried",
    untried: "Not tried by us",
    documentation: "By its own documentation",
  },
})
