/** Everybody's top-ups. */
import { Link } from "wouter"
import { api } from "../../../api/client.ts"
import { told } from "../../../api/failure.ts"
import { Card } from "../../../components/card.tsx"
import { Choice } from "../../../components/choice.tsx"
import { type Column, DataTable } from "../../../components/data-table.tsx"
import { useParameter } from "../address.ts"
import { at, useList } from "../list.ts"
import { OperatorPage } from "../section.tsx"
import { topUpStatuses, useTopUpColumns } from "./columns.tsx"
import { useTopUpsText } from "./text.ts"

const topUpsPage = (status: string | undefined, cursor: string | undefined) =>
  told(api.operator["top-ups"].get({ query: { ...(status !== undefined && { status }), ...at(cursor) } }))
type OwnedTopUp = Awaited<ReturnType<typeof topUpsPage>>["data"][number]

export default function TopUpsPage() {
  const text = useTopUpsText()
  const [asked, setStatus] = useParameter("status")
  const status = topUpStatuses.find((known) => known === asked)
  const { table } = useList(["top-ups", status], (cursor) => topUpsPage(status, cursor))
  const [name, ...rest] = useTopUpColumns()
  const account: Column<OwnedTopUp> = {
    id: "account",
    head: text.columns.account,
    cell: ({ account_id: id, email }) => <Link href={`/operator/accounts/${id}`}>{email}</Link>,
  }
  const columns: Column<OwnedTopUp>[] = name === undefined ? [] : [name, account, ...rest]
  return (
    <OperatorPage title={text.title} intro={text.intro}>
      <Choice
        label={text.status}
        values={["", ...topUpStatuses]}
        chosen={status ?? ""}
        nameOf={(value) => (value === "" ? text.any : text.statuses[value])}
        onChoose={setStatus}
      />
      <Card flush>
        <DataTable caption={text.title} columns={columns} {...table} rowKey={({ id }) => id} empty={text.none} />
      </Card>
    </OperatorPage>
  )
}
