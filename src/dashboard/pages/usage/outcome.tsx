/** Why a call cost nothing, or less than its tokens; and which models it went by. */
import { CornerDownRight, Info } from "lucide-react"
import type { ReactNode } from "react"
import { useFormat } from "../../i18n/format.ts"
import { useCallText } from "./call-text.ts"
import type { CallDetail } from "./data.ts"

type Of = { readonly call: CallDetail }

export function Outcome({ call }: Of) {
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
  const text = useCallText()
  return (
    <section className="call-notice">
      <Info aria-hidden="true" />
      <div>
        <h3>{title}</h3>
        <p>{children}</p>
        {code !== null && (
          <p className="call-notice-code">
            {text.errorCode}: <code>{code}</code>
          </p>
        )}
      </div>
    </section>
  )
}

/** Only of calls that were rerouted. */
export function Route({ call }: Of) {
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
