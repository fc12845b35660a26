/** A top-up in a row: of one account, and of all. */
import type { Column } from "../../../components/data-table.tsx"
import { Money } from "../../../components/money.tsx"
import { Tag, type Tone } from "../../../components/tag.tsx"
import { useFormat } from "../../../i18n/format.ts"
import { useTopUpsText } from "./text.ts"

export const topUpStatuses = ["pending", "paid", "expired"] as const
export type TopUpStatus = (typeof topUpStatuses)[number]

const TONES: Readonly<Record<TopUpStatus, Tone>> = { pending: "warn", paid: "good", expired: "neutral" }

interface TopUp {
  readonly id: string
  readonly status: TopUpStatus
  readonly provider: string
  readonly reference: string | null
  readonly breakdown: { readonly balance_purchased_micro: number; readonly total_micro: number }
  readonly created_at: string
  readonly paid_at: string | null
}

export function useTopUpColumns(): readonly Column<TopUp>[] {
  const { columns: heads, statuses, paidAt } = useTopUpsText()
  const format = useFormat()
  return [
    {
      id: "id",
      head: heads.id,
      names: true,
      cell: ({ id, provider, reference }) => (
        <span className="operator-name">
          <span>{provider}</span>
          <code>{id}</code>
          {reference !== null && reference !== id && <code>{reference}</code>}
        </span>
      ),
    },
    {
      id: "status",
      head: heads.status,
      cell: ({ status }) => <Tag tone={TONES[status]}>{statuses[status]}</Tag>,
    },
    {
      id: "time",
      head: heads.created,
      cell: ({ created_at: created, paid_at: paid }) => (
        <span className="operator-reference">
          <span>{format.dateTime(created)}</span>
          {paid !== null && <small>{paidAt(format.dateTime(paid))}</small>}
        </span>
      ),
    },
    {
      id: "credited",
      head: heads.credited,
      numeric: true,
      cell: ({ breakdown }) => <Money micro={breakdown.balance_purchased_micro} />,
    },
    {
      id: "paid",
      head: heads.paid,
      numeric: true,
      cell: ({ breakdown }) => <Money micro={breakdown.total_micro} />,
    },
  ]
}
