/** Everybody's accounts, found by what is at hand. */
import { UserSearch } from "lucide-react"
import { useLocation } from "wouter"
import { api } from "../../../api/client.ts"
import { told } from "../../../api/failure.ts"
import { Card } from "../../../components/card.tsx"
import { type Column, DataTable } from "../../../components/data-table.tsx"
import { EmptyState } from "../../../components/empty-state.tsx"
import { Money } from "../../../components/money.tsx"
import { useFormat } from "../../../i18n/format.ts"
import { useParameter } from "../address.ts"
import { at, useList } from "../list.ts"
import { SearchForm } from "../search-form.tsx"
import { OperatorPage } from "../section.tsx"
import { AccountTags } from "./account-tags.tsx"
import { useAccountsText } from "./text.ts"

const accountsPage = (query: string, cursor: string | undefined) =>
  told(api.operator.accounts.get({ query: { ...(query !== "" && { query }), ...at(cursor) } }))
type Account = Awaited<ReturnType<typeof accountsPage>>["data"][number]

export default function AccountsPage() {
  const text = useAccountsText()
  const [, navigate] = useLocation()
  const [query, setQuery] = useParameter("query")
  const { table } = useList(["accounts", query], (cursor) => accountsPage(query, cursor))
  return (
    <OperatorPage title={text.title} intro={text.intro}>
      <SearchForm label={text.search} hint={text.searchHint} value={query} onSearch={setQuery} />
      <Card flush>
        <DataTable
          caption={text.title}
          columns={useColumns()}
          {...table}
          rowKey={({ id }) => id}
          onOpen={({ id }) => navigate(`/operator/accounts/${id}`)}
          empty={
            <EmptyState icon={<UserSearch />} title={text.none}>
              {text.noneHint}
            </EmptyState>
          }
        />
      </Card>
    </OperatorPage>
  )
}

function useColumns(): readonly Column<Account>[] {
  const text = useAccountsText()
  const format = useFormat()
  return [
    {
      id: "email",
      head: text.columns.email,
      names: true,
      cell: ({ email, id }) => (
        <span className="operator-name">
          <span>{email}</span>
          <code>{id}</code>
        </span>
      ),
    },
    { id: "state", head: text.columns.state, cell: (account) => <AccountTags account={account} /> },
    {
      id: "balance",
      head: text.columns.balance,
      numeric: true,
      cell: ({ balance_micro: balance }) => <Money micro={balance} />,
    },
    { id: "held", head: text.columns.held, numeric: true, cell: ({ held_micro: held }) => <Money micro={held} /> },
    { id: "keys", head: text.columns.keys, numeric: true, cell: ({ key_count: keys }) => format.number(keys) },
    { id: "created", head: text.columns.created, cell: ({ created_at: created }) => format.date(created) },
  ]
}
