/** What moved the account's balance, the newest first, with the balance after each. */
import { Card } from "../../../components/card.tsx"
import { type Column, DataTable } from "../../../components/data-table.tsx"
import { Money } from "../../../components/money.tsx"
import { useFormat } from "../../../i18n/format.ts"
import { useList } from "../list.ts"
import { type Transfer, transfersPage } from "./data.ts"
import { useAccountText } from "./text.ts"

export function Ledger({ accountId }: { readonly accountId: string }) {
  const text = useAccountText()
  const { table } = useList(["transfers", accountId], (cursor) => transfersPage(accountId, cursor))
  return (
    <Card title={text.ledger} flush>
      <DataTable
        caption={text.ledger}
        columns={useColumns()}
        {...table}
        rowKey={({ id }) => String(id)}
        empty={text.ledgerEmpty}
      />
    </Card>
  )
}

function useColumns(): readonly Column<Transfer>[] {
  const text = useAccountText()
  const format = useFormat()
  const { ledgerColumns: heads, reasons } = text
  return [
    {
      id: "reason",
      head: heads.reason,
      names: true,
      cell: ({ reason }) => Object.entries(reasons).find(([known]) => known === reason)?.[1] ?? reason,
    },
    { id: "time", head: heads.time, cell: ({ created_at: time }) => format.dateTime(time) },
    {
      id: "note",
      head: heads.note,
      cell: (transfer) => (
        <span className="operator-reference">
          {transfer.note !== null && <span>{transfer.note}</span>}
          <code>{transfer.for}</code>
        </span>
      ),
    },
    {
      id: "amount",
      head: heads.amount,
      numeric: true,
      cell: ({ amount_micro: amount }) => (
        <span className={amount > 0 ? "is-good" : undefined}>
          {amount > 0 && "+"}
          <Money micro={amount} />
        </span>
      ),
    },
    {
      id: "balance",
      head: heads.balance,
      numeric: true,
      cell: ({ balance_micro: balance }) => <Money micro={balance} />,
    },
  ]
}
