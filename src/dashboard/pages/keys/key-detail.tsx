/** Below a key's row in the table: what it is, what it has used, and what can be done with it. */
import { Code, Gauge, ListTree, Pencil, RefreshCw, Trash2, Users } from "lucide-react"
import { Link } from "wouter"
import type { ApiKey } from "../../api/queries.ts"
import { useBreakerText } from "../../components/breaker.tsx"
import { Button } from "../../components/button.tsx"
import { useRunText } from "../../components/run.tsx"
import { Tag, UsageBar } from "../../components/values.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useMay } from "../../shell/session.tsx"
import { BreakerFact, Paused } from "./breaker.tsx"
import { Bindings, useBindingText } from "./bindings.tsx"
import { useChildrenText } from "./children-text.ts"
import { useKeysText } from "./text.ts"

export type KeyAction = "try" | "edit" | "breaker" | "runs" | "children" | "rotate" | "revoke"

interface KeyDetailProps {
  readonly apiKey: ApiKey
  readonly onAct: (action: KeyAction) => void
}

export function KeyDetail({ apiKey, onAct }: KeyDetailProps) {
  const text = useKeysText()
  const breaker = useBreakerText()
  const children = useChildrenText()
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
              {children.action}
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
        {apiKey.children > 0 && <span>{children.count(format.number(apiKey.children), apiKey.children === 1)}</span>}
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
