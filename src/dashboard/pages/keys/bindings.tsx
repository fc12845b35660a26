/** How long a key works, and what it may be used for and from where; nothing of a key without bounds. */
import { CalendarClock } from "lucide-react"
import { formatName } from "../../api/call-formats.ts"
import type { ApiKey } from "../../api/queries.ts"
import { useFormat } from "../../i18n/format.ts"
import { useBindingText } from "./binding-text.ts"

export function Bindings({ apiKey }: { readonly apiKey: ApiKey }) {
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
