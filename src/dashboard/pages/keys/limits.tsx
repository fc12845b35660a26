/** What a key has used of each of its limits, and when that starts again. */
import type { ApiKey } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { UsageBar } from "../../components/usage-bar.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useKeysText } from "./text.ts"

interface LimitsProps {
  readonly apiKey: ApiKey
  /** Its limits are to be set. */
  readonly onEdit: () => void
}

export function Limits({ apiKey: { usage, spending_period: period }, onEdit }: LimitsProps) {
  const text = useKeysText()
  const format = useFormat()
  if (usage.budget === null && usage.requests === null && usage.tokens === null) {
    return (
      <p className="key-unlimited">
        {text.unlimited}
        <Button size="small" onClick={onEdit}>
          {text.setLimits}
        </Button>
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
