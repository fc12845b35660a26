/** Below a key's row in the table: what it is, what it has used, and what can be done with it. */
import { CalendarClock, Code, Gauge, ListTree, Pencil, RefreshCw, Trash2, Users } from "lucide-react"
import { Link } from "wouter"
import type { ApiKey } from "../../api/queries.ts"
import { useBreakerText, useRunText } from "../../components/spending.tsx"
import { Button } from "../../components/button.tsx"
import { formatName, Tag, UsageBar } from "../../components/values.tsx"
import { useFormat, texts } from "../../i18n/language.tsx"
import { useMay } from "../../shell/session.tsx"
import { BreakerFact, Paused } from "./breaker.tsx"
import { useKeysText } from "./text.ts"

export type KeyAction = "try" | "edit" | "breaker" | "runs" | "children" | "rotate" | "revoke"

interface KeyDetailProps {
  readonly apiKey: ApiKey
  readonly onAct: (action: KeyAction) => void
}

export function KeyDetail({ apiKey, onAct }: KeyDetailProps) {
  const text = useKeysText()
  const breaker = useBreakerText()
  const runs = useRunText()
  const format = useFormat()
  const mayBuild = useMay()("build")
  const { name, previous_expires_at: previousUntil } = apiKey
  return (
    <section className="key-detail" aria-label={name}>
      <div className="key-actions" role="group" aria-label={text.actions(name)}>
        <Button size="small" icon={<Code />} onClick={() => onAct("try")}>
          {text.tryIt}
        </Button>
        <Button size="small" icon={<ListTree />} onClick={() => onAct("runs")}>
          {runs.action}
        </Button>
        {mayBuild && (
          <>
            <Button size="small" icon={<Pencil />} onClick={() => onAct("edit")}>
              {text.edit}
            </Button>
            <Button size="small" icon={<Gauge />} onClick={() => onAct("breaker")}>
              {breaker.keyAction}
            </Button>
            <Button size="small" icon={<Users />} onClick={() => onAct("children")}>
              {text.children}
            </Button>
            <Button size="small" icon={<RefreshCw />} onClick={() => onAct("rotate")}>
              {text.rotate}
            </Button>
            <Button size="small" icon={<Trash2 />} onClick={() => onAct("revoke")}>
              {text.revoke}
            </Button>
          </>
        )}
      </div>
      <p className="key-facts">
        <span>{text.created(format.date(apiKey.created_at))}</span>
        <span title={text.fallbackHints[apiKey.fallback]}>{text.fallbackOf[apiKey.fallback]}</span>
        <BreakerFact apiKey={apiKey} />
        {apiKey.children > 0 && <span>{text.childCount(format.number(apiKey.children), apiKey.children === 1)}</span>}
        <Link href={`/usage?key=${encodeURIComponent(apiKey.id)}`}>{text.itsUsage}</Link>
      </p>
      {previousUntil !== null && (
        <p className="key-notice">
          <RefreshCw aria-hidden="true" />
          <span>{text.rotating(format.dateTime(previousUntil))}</span>
        </p>
      )}
      <Paused apiKey={apiKey} />
      <Bindings apiKey={apiKey} />
      <Limits apiKey={apiKey} onEdit={mayBuild ? () => onAct("edit") : undefined} />
    </section>
  )
}

/** Nothing of a key that works as it should. */
export function KeyState({ apiKey: { usage, status, paused } }: { readonly apiKey: ApiKey }) {
  const text = useKeysText()
  const breaker = useBreakerText()
  const { expired } = useBindingText()
  if (status === "expired") return <Tag tone="bad">{expired}</Tag>
  if (paused !== null) return <Tag tone="bad">{breaker.pausedTag}</Tag>
  const spent = usage.budget !== null && usage.budget.used_micro >= usage.budget.limit_micro
  return spent ? <Tag tone="bad">{text.exhausted}</Tag> : null
}

/** The part of a key that may be shown: enough to find it in a configuration file. */
export const hintOf = ({ prefix, last4 }: Pick<ApiKey, "prefix" | "last4">): string => `${prefix}…${last4}`

interface LimitsProps {
  readonly apiKey: ApiKey
  /** Opens the form, to set limits; undefined for whose role does not allow it. */
  readonly onEdit: (() => void) | undefined
}

/** How much of each limit a key has used, and when the limit starts again. */
function Limits({ apiKey: { usage, spending_period: period }, onEdit }: LimitsProps) {
  const text = useKeysText()
  const format = useFormat()
  if (usage.budget === null && usage.requests === null && usage.tokens === null) {
    return (
      <p className="key-unlimited">
        {text.unlimited}
        {onEdit !== undefined && (
          <Button size="small" onClick={onEdit}>
            {text.setLimits}
          </Button>
        )}
      </p>
    )
  }
  const window = (label: string, { limit, used, resets_in_s: left }: NonNullable<ApiKey["usage"]["requests"]>) => (
    <UsageBar
      label={label}
      used={used}
      limit={limit}
      format={format.number}
      note={used === 0 ? text.empty : text.emptiesIn(format.number(left))}
    />
  )
  return (
    <div className="key-limits">
      {usage.budget !== null && (
        <UsageBar
          label={text.budgets[period ?? "total"]}
          used={usage.budget.used_micro}
          limit={usage.budget.limit_micro}
          format={format.rupiah}
          note={
            usage.budget.resets_at === null ? text.neverResets : text.resetsAt(format.dateTime(usage.budget.resets_at))
          }
        />
      )}
      {usage.requests !== null && window(text.requests, usage.requests)}
      {usage.tokens !== null && window(text.tokens, usage.tokens)}
    </div>
  )
}

/** How long a key works, and what it may be used for and from where; nothing of a key without bounds. */
function Bindings({ apiKey }: { readonly apiKey: ApiKey }) {
  const text = useBindingText()
  const format = useFormat()
  const { expires_at: expiresAt, models, endpoints, networks, origins, max_rate_micro: rate, status } = apiKey
  const bounds = [
    [text.onlyModels, models?.join(", ")],
    [text.onlyEndpoints, endpoints?.map(formatName).join(", ")],
    [text.onlyNetworks, networks?.join(", ")],
    [text.fromPages, origins?.join(", ")],
    // The rate of one token in micro-rupiah is the price of a million tokens in rupiah.
    [text.most, rate === null ? undefined : text.mostOf(format.rupiah(BigInt(rate) * 1_000_000n))],
  ].filter((bound): bound is [string, string] => bound[1] !== undefined)
  return (
    <>
      {expiresAt !== null && (
        <p className={status === "expired" ? "key-notice" : "key-quiet key-expiry"}>
          <CalendarClock aria-hidden="true" />
          <span>{(status === "expired" ? text.ended : text.until)(format.dateTime(expiresAt))}</span>
        </p>
      )}
      {bounds.length > 0 && (
        <dl className="key-bounds" aria-label={text.facts}>
          {bounds.map(([name, what]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
      )}
    </>
  )
}

export const useBindingText = texts({
  id: {
    title: "Masa berlaku dan pembatasan",
    expiry: "Berlaku sampai",
    expiryHint: (zone: string) =>
      `Sesudah itu panggilannya ditolak. Panggilan yang sedang berjalan diteruskan. Waktu ${zone}.`,
    expiryWrong: "Tulis waktu yang akan datang.",
    expiryOf: "Pilihan masa berlaku",
    days: (count: string) => `${count} hari`,
    never: "Tanpa akhir",
    models: "Model",
    modelsWhich: { all: "Semua", some: "Yang dipilih saja" },
    modelsHint: "Panggilan ke model lain ditolak, dan model pengganti hanya dari daftar ini.",
    modelsWrong: "Pilih satu sampai 64 model.",
    gone: (model: string) => `${model} (tidak ada lagi di katalog)`,
    endpoints: "Format panggilan",
    endpointsWrong: "Pilih sedikitnya satu format.",
    networks: "Jaringan",
    networksHint: "Satu alamat atau jaringan (CIDR) per baris, paling banyak 32. Kosong: dari mana saja.",
    networksWrong: (bad: string) =>
      bad === ""
        ? "Paling banyak 32 baris."
        : `${bad} bukan alamat atau jaringan. Contoh: 203.0.113.0/24 atau 2001:db8::/32.`,
    origins: "Halaman web",
    originsHint:
      "Asal halaman yang boleh memanggil dari peramban, satu per baris, paling banyak 16, misalnya https://app.example.com. Kosong: tidak ada. Kunci di halaman terlihat oleh pengunjungnya.",
    originsWrong: (bad: string) =>
      bad === ""
        ? "Paling banyak 16 baris."
        : `${bad} bukan asal halaman. Contoh: https://app.example.com atau http://localhost:5173, tanpa path.`,
    rate: "Tarif tertinggi",
    rateHint: "Model yang salah satu dari empat tarifnya lebih tinggi ditolak.",
    rateUnit: "/ 1 juta token",
    rateWrong: "Tulis bilangan bulat rupiah mulai 0.",
    expired: "Kedaluwarsa",
    facts: "Masa berlaku dan pembatasan",
    until: (time: string) => `Berlaku sampai ${time}`,
    ended: (time: string) => `Berakhir ${time}. Ubah kunci ini untuk memperpanjangnya.`,
    onlyModels: "Hanya model",
    onlyEndpoints: "Hanya format",
    onlyNetworks: "Hanya dari",
    fromPages: "Halaman web",
    most: "Tarif paling tinggi",
    mostOf: (price: string) => `${price} per 1 juta token`,
  },
  en: {
    title: "Expiry and what it is bound to",
    expiry: "Works until",
    expiryHint: (zone: string) => `After that its calls are refused. Calls under way go on. Time in ${zone}.`,
    expiryWrong: "Enter a time that is to come.",
    expiryOf: "Choices for expiry",
    days: (count: string) => `${count} days`,
    never: "No end",
    models: "Models",
    modelsWhich: { all: "All", some: "Only those chosen" },
    modelsHint: "Calls to other models are refused, and fallback models come from this list alone.",
    modelsWrong: "Choose from 1 to 64 models.",
    gone: (model: string) => `${model} (no longer in the catalogue)`,
    endpoints: "Call formats",
    endpointsWrong: "Choose at least one format.",
    networks: "Networks",
    networksHint: "One address or network (CIDR) a line, 32 at most. Empty: from anywhere.",
    networksWrong: (bad: string) =>
      bad === "" ? "32 lines at most." : `${bad} is no address or network. Try 203.0.113.0/24 or 2001:db8::/32.`,
    origins: "Web pages",
    originsHint:
      "Origins of pages that may call from a browser, one a line, 16 at most, such as https://app.example.com. Empty: none. A page's visitors can see the key in it.",
    originsWrong: (bad: string) =>
      bad === ""
        ? "16 lines at most."
        : `${bad} is no origin of a page. Try https://app.example.com or http://localhost:5173, without a path.`,
    rate: "Highest rate",
    rateHint: "Models any of whose four rates is higher are refused.",
    rateUnit: "/ 1 million tokens",
    rateWrong: "Enter a whole number of rupiah from 0.",
    expired: "Expired",
    facts: "Expiry and what it is bound to",
    until: (time: string) => `Works until ${time}`,
    ended: (time: string) => `Ended ${time}. Edit this key to give it more time.`,
    onlyModels: "Only models",
    onlyEndpoints: "Only formats",
    onlyNetworks: "Only from",
    fromPages: "Web pages",
    most: "Highest rate",
    mostOf: (price: string) => `${price} per 1 million tokens`,
  },
})

const SOON_MS = 7 * 24 * 60 * 60 * 1_000

/** When a key ends, marked when that is soon. */
export function Expiry({ apiKey: { expires_at: at, status } }: { readonly apiKey: ApiKey }) {
  const text = useKeysText()
  const format = useFormat()
  if (at === null) return <span className="key-quiet key-nothing">–</span>
  const shown = (
    <time dateTime={at} title={format.dateTime(at)}>
      {format.date(at)}
    </time>
  )
  if (status === "expired" || Date.parse(at) - Date.now() > SOON_MS) return shown
  return (
    <span className="key-soon">
      {shown}
      <Tag tone="warn">{text.soon}</Tag>
    </span>
  )
}
