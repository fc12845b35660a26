/** The account's own top-ups. */
import { Card } from "../../../components/card.tsx"
import { DataTable } from "../../../components/data-table.tsx"
import { useTopUpColumns } from "../top-ups/columns.tsx"
import type { AccountDetail } from "./data.ts"
import { useAccountText } from "./text.ts"

export function AccountTopUps({ topUps }: { readonly topUps: AccountDetail["top_ups"] }) {
  const text = useAccountText()
  return (
    <Card title={text.topUps} flush>
      <DataTable
        caption={text.topUps}
        columns={useTopUpColumns()}
        rows={topUps}
        rowKey={({ id }) => id}
        empty={text.topUpsEmpty}
      />
    </Card>
  )
}
