/** The status of a call (gateway-api.md, "Usage record status"): its names, and the tag that shows it. */
import { texts } from "../i18n/language.tsx"
import { Tag, type Tone } from "./values.tsx"

export const useStatusText = texts({
  id: {
    ok: "Berhasil",
    upstream_error: "Model gagal",
    aborted_stream: "Terputus",
    usage_missing: "Tanpa hitungan",
    billing_error: "Gagal dibukukan",
    fallback_429: "Dialihkan: sibuk",
    fallback_oversize: "Dialihkan: terlalu panjang",
  },
  en: {
    ok: "OK",
    upstream_error: "Model failed",
    aborted_stream: "Broken off",
    usage_missing: "Not counted",
    billing_error: "Not booked",
    fallback_429: "Rerouted: busy",
    fallback_oversize: "Rerouted: too long",
  },
})

export type CallStatus = keyof ReturnType<typeof useStatusText>

const TONES: Readonly<Record<CallStatus, Tone>> = {
  ok: "good",
  upstream_error: "bad",
  aborted_stream: "bad",
  usage_missing: "warn",
  billing_error: "warn",
  fallback_429: "neutral",
  fallback_oversize: "neutral",
}

export const callStatuses = Object.keys(TONES) as readonly CallStatus[]

export function StatusTag({ status }: { readonly status: CallStatus }) {
  const text = useStatusText()
  return <Tag tone={TONES[status]}>{text[status]}</Tag>
}
