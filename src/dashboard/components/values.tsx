/**
 * Single values: money, a state or the status of a call as a tag, a part of a limit as a bar, a series as a small line, the name of
 * a call's format; and the looks by which series of charts are told apart.
 */
import type { ReactNode } from "react"
import type { CatalogueModel } from "../api/queries.ts"
import { useAgo, useFormat, texts } from "../i18n/language.tsx"
import type { RupiahForm } from "../i18n/figures.ts"
import { useComponentText } from "./text.ts"

interface MoneyProps {
  readonly micro: number | bigint
  readonly form?: RupiahForm
}

/** An amount of micro-rupiah. A tip shows every digit when the text does not. */
export function Money({ micro, form = "plain" }: MoneyProps) {
  const { rupiah } = useFormat()
  const shown = rupiah(micro, form)
  const exact = rupiah(micro, "exact")
  return (
    <data className="money" value={String(micro)} title={shown === exact ? undefined : exact}>
      {shown}
    </data>
  )
}

/** How long ago it was. */
export const Ago = ({ time }: { readonly time: string }) => useAgo(time)

export type Tone = "neutral" | "good" | "warn" | "bad" | "accent"

/** A state in a word. The colour is never the only sign. */
export const Tag = ({ tone = "neutral", children }: { readonly tone?: Tone; readonly children: ReactNode }) => (
  <span className={`tag tag-${tone}`}>{children}</span>
)

/** The status of a call (gateway-api.md, "Usage record status"): its names, and the tag that shows it. */
export const useStatusText = texts({
  id: {
    ok: "Berhasil",
    upstream_error: "Model gagal",
    aborted_stream: "Terputus",
    usage_missing: "Tanpa hitungan",
    billing_error: "Tidak ditagih: gangguan kami",
    fallback_429: "Dialihkan: sibuk",
    fallback_oversize: "Dialihkan: terlalu panjang",
  },
  en: {
    ok: "OK",
    upstream_error: "Model failed",
    aborted_stream: "Broken off",
    usage_missing: "Not counted",
    billing_error: "Not charged: our fault",
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

interface UsageBarProps {
  readonly label: string
  /** Whether the label is shown; a screen reader reads it anyhow. */
  readonly labelled?: boolean
  /** In the same unit as `limit`, such as micro-rupiah or calls. */
  readonly used: number
  readonly limit: number
  readonly format: (value: number) => string
  /** When the limit starts again. */
  readonly note?: string
}

/** How much of a limit is used. */
export function UsageBar({ label, labelled = true, used, limit, format, note }: UsageBarProps) {
  const text = useComponentText()
  const share = limit === 0 ? 1 : Math.min(used / limit, 1)
  const tone = share >= 1 ? "bad" : share >= 0.8 ? "warn" : "good"
  return (
    <div className="usage-bar">
      <div className="usage-bar-words">
        {labelled && <span>{label}</span>}
        <span>{text.used(format(used), format(limit))}</span>
      </div>
      <div
        className={`usage-bar-track usage-bar-${tone}`}
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={limit}
        aria-valuenow={Math.min(used, limit)}
        aria-valuetext={text.used(format(used), format(limit))}
      >
        <div style={{ inlineSize: `${share * 100}%` }} />
      </div>
      {note !== undefined && <p className="usage-bar-note">{note}</p>}
    </div>
  )
}

interface SparklineProps {
  readonly values: readonly number[]
  /** What it shows, in words: that is what a screen reader reads, and what is shown as a tip. */
  readonly label: string
}

const HEIGHT = 24
/** Of a day, with the space to the next one. */
const STEP = 4
const BAR = 3

/** A number over the last days in the height of a line of text: a bar a day, today the last. */
export function Sparkline({ values, label }: SparklineProps) {
  const most = Math.max(...values)
  // Whatever is not nothing can be seen.
  const heightOf = (value: number) => (value <= 0 ? 1 : Math.max(2.5, (value / most) * HEIGHT))
  const bars = (shown: (value: number, day: number) => boolean) =>
    values
      .map((value, day) => (shown(value, day) ? `M${day * STEP} ${HEIGHT}v${-heightOf(value)}h${BAR}V${HEIGHT}z` : ""))
      .join("")
  const width = values.length * STEP - (STEP - BAR)
  const today = values.length - 1
  return (
    <svg
      className="sparkline"
      role="img"
      aria-label={label}
      viewBox={`0 0 ${width} ${HEIGHT}`}
      width={width}
      height={HEIGHT}
    >
      <title>{label}</title>
      <path className="sparkline-none" d={bars((value) => value <= 0)} />
      <path className="sparkline-days" d={bars((value, day) => value > 0 && day !== today)} />
      <path className="sparkline-today" d={bars((value, day) => value > 0 && day === today)} />
    </svg>
  )
}

/**
 * How a series is told from the others: by a colour, and from the fourth on by a pattern too, so that no two of `TOLD_APART` look alike to
 * who does not see red from green. The last colour is that of all the others together.
 */
export interface Look {
  readonly colour: number
  /** 0 is none. */
  readonly pattern: number
}
const COLOURS = 7
const PATTERNS = 3
export const TOLD_APART = 12
export const othersLook: Look = { colour: COLOURS, pattern: 0 }
export const lookOf = (index: number): Look => ({
  colour: index % COLOURS,
  pattern: index < 3 ? 0 : 1 + (index % PATTERNS),
})

export type CallFormat = CatalogueModel["endpoints"][number]

const NAMES: Readonly<Record<CallFormat, string>> = {
  chat: "Chat completions",
  messages: "Messages",
  responses: "Responses",
  completions: "Completions",
  embeddings: "Embeddings",
}
export const callFormats = Object.keys(NAMES) as CallFormat[]
export const callFormat = (name: string | null): CallFormat | undefined => callFormats.find((format) => format === name)
/** One that is not known here is named as it is. */
export function formatName(name: string): string {
  const format = callFormat(name)
  return format === undefined ? name : NAMES[format]
}
