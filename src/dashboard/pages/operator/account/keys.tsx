/** The account's keys, as far as an operator sees them. */
import { Card } from "../../../components/card.tsx"
import { type Column, DataTable } from "../../../components/data-table.tsx"
import { Tag } from "../../../components/tag.tsx"
import { useFormat } from "../../../i18n/format.ts"
import type { AccountDetail } from "./data.ts"
import { useAccountText } from "./text.ts"

type Key = AccountDetail["keys"][number]

export function Keys({ keys }: { readonly keys: readonly Key[] }) {
  const text = useAccountText()
  return (
    <Card title={text.keys} flush>
      <DataTable
        caption={text.keys}
        columns={useColumns()}
        rows={keys}
        rowKey={({ id }) => id}
        empty={text.keysEmpty}
      />
    </Card>
  )
}

function useColumns(): readonly Column<Key>[] {
  const text = useAccountText()
  const format = useFormat()
  const { keyColumns: heads } = text
  const limit = ({ spending_limit_micro: most, spent_micro: spent, spending_period: period }: Key) =>
    most === null || period === null
      ? text.unlimited
      : `${format.rupiah(spent ?? 0)} / ${format.rupiah(most)} ${text.periods[period]}`
  return [
    {
      id: "name",
      head: heads.name,
      names: true,
      cell: ({ name, prefix, last4 }) => (
        <span className="operator-name">
          <span>{name}</span>
          <code>{`${prefix}…${last4}`}</code>
        </span>
      ),
    },
    {
      id: "state",
      head: heads.state,
      cell: ({ status }) =>
        status === "active" ? <Tag tone="good">{text.keyActive}</Tag> : <Tag>{text.keyRevoked}</Tag>,
    },
    { id: "limit", head: heads.limit, cell: limit },
    {
      id: "used",
      head: heads.used,
      cell: ({ last_used_at: used }) => (used === null ? text.never : format.dateTime(used)),
    },
    { id: "created", head: heads.created, cell: ({ created_at: created }) => format.date(created) },
  ]
}
