/** All accounts and their states, with a search by e-mail, account id, key id or key. */
import { UserSearch } from "lucide-react"
import { Link, useLocation } from "wouter"
import { api, unwrap } from "../../api/client.ts"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { EmptyState } from "../../components/feedback.tsx"
import { Card } from "../../components/layout.tsx"
import { Money, Tag } from "../../components/values.tsx"
import { useFormat, texts } from "../../i18n/language.tsx"
import { useRoleText } from "../../shell/text.ts"
import { at, CsvLink, OperatorPage, type OperatorRole, SearchForm, useList, useParameter } from "./frame.tsx"
import { useAccountText } from "./account-text.ts"
import { useOperatorText } from "./act-dialog.tsx"

const accountsPage = (query: string, cursor: string | undefined) =>
  unwrap(api.operator.accounts.get({ query: { ...(query !== "" && { query }), ...at(cursor) } }))
type Account = Awaited<ReturnType<typeof accountsPage>>["data"][number]

export default function AccountsPage() {
  const text = useAccountsText()
  const [, navigate] = useLocation()
  const [query, setQuery] = useParameter("query")
  const { table } = useList(["accounts", query], (cursor) => accountsPage(query, cursor))
  return (
    <OperatorPage
      title={text.title}
      intro={text.intro}
      actions={<CsvLink path="/operator/accounts" query={{ query }} />}
    >
      <SearchForm label={text.search} hint={text.searchHint} value={query} onSearch={setQuery} />
      <Card flush>
        <DataTable
          caption={text.title}
          columns={useColumns()}
          {...table}
          rowKey={({ id }) => id}
          onOpen={({ id }) =>
            navigate(`/operator/accounts/${id}${query.startsWith("req_") ? `/calls?request=${query}` : ""}`)
          }
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

interface AccountState {
  readonly operator_role: OperatorRole | null
  readonly frozen: boolean
  /** Undefined where it is not asked. */
  readonly paused_at?: string | null
  readonly deleted_at: string | null
}

/** The state and the role of an account, as tags. */
export function AccountTags({ account }: { readonly account: AccountState }) {
  const text = useAccountsText()
  const { roles } = useOperatorText()
  return (
    <span className="operator-tags">
      {account.deleted_at !== null ? (
        <Tag>{text.deleted}</Tag>
      ) : account.frozen ? (
        <Tag tone="bad">{text.frozen}</Tag>
      ) : typeof account.paused_at === "string" ? (
        <Tag tone="bad">{text.paused}</Tag>
      ) : (
        <Tag tone="good">{text.active}</Tag>
      )}
      {account.operator_role !== null && <Tag tone="accent">{`${text.operator}: ${roles[account.operator_role]}`}</Tag>}
    </span>
  )
}

/** In words, since when an account is not as it should be. */
export function AccountNotice({ account }: { readonly account: Account }) {
  const text = useAccountText()
  const format = useFormat()
  if (account.deleted_at !== null)
    return <p className="operator-notice">{text.deletedSince(format.dateTime(account.deleted_at))}</p>
  const { frozen_at: frozen, paused_at: paused, paused_until: until } = account
  return (
    <>
      {frozen !== null && (
        <p className="operator-notice">{text.frozenSince(format.dateTime(frozen), account.frozen_reason ?? "")}</p>
      )}
      {paused !== null && (
        <p className="operator-notice">
          {text.pausedSince(format.dateTime(paused))}{" "}
          {until === null ? text.pausedByOwner : text.pausedUntil(format.dateTime(until))}
        </p>
      )}
    </>
  )
}

interface Member {
  readonly id: string
  readonly email: string
  readonly role: "owner" | "billing" | "developer" | "viewer"
  readonly since: string
  readonly invited_by: string | null
}

/** Who else works on an account, each with an account of their own. */
export function Members({ members }: { readonly members: readonly Member[] }) {
  const text = useAccountText()
  const { roles } = useRoleText()
  const format = useFormat()
  const { memberColumns: heads } = text
  const columns: readonly Column<Member>[] = [
    {
      id: "email",
      head: heads.email,
      names: true,
      cell: ({ id, email }) => <Link href={`/operator/accounts/${id}`}>{email}</Link>,
    },
    { id: "role", head: heads.role, cell: ({ role }) => roles[role] },
    { id: "since", head: heads.since, cell: ({ since }) => format.date(since) },
    { id: "invited-by", head: heads.invitedBy, cell: ({ invited_by: by }) => by ?? "–" },
  ]
  return (
    <Card title={text.members} flush>
      <DataTable caption={text.members} columns={columns} rows={members} rowKey={({ id }) => id} empty="" />
    </Card>
  )
}

interface KeyStateProps {
  readonly apiKey: { readonly status: "active" | "expired" | "revoked"; readonly paused: object | null }
}

export function KeyState({ apiKey: { status, paused } }: KeyStateProps) {
  const text = useAccountText()
  if (status !== "active") return <Tag>{status === "expired" ? text.keyExpired : text.keyRevoked}</Tag>
  return paused === null ? <Tag tone="good">{text.keyActive}</Tag> : <Tag tone="bad">{text.keyPaused}</Tag>
}

export const useAccountsText = texts({
  id: {
    title: "Akun",
    intro: "Semua akun, yang terbaru lebih dulu.",
    search: "Cari akun",
    searchHint:
      "Bagian dari alamat e-mail; awal ID akun, ID kunci, atau kunci (13 karakter pertama cukup); atau ID permintaan, ID isi saldo, atau rujukan pembayaran selengkapnya.",
    none: "Tidak ada akun yang cocok",
    noneHint: "Periksa ejaannya, atau cari dengan awal ID.",
    columns: {
      email: "E-mail",
      balance: "Saldo",
      held: "Ditahan",
      keys: "Kunci",
      state: "Status",
      created: "Dibuat",
    },
    active: "Aktif",
    frozen: "Dibekukan",
    paused: "Dijeda",
    deleted: "Dihapus",
    operator: "Operator",
  },
  en: {
    title: "Accounts",
    intro: "Every account, the newest first.",
    search: "Search accounts",
    searchHint:
      "Part of an e-mail address; the beginning of an account's ID, a key's ID or a key (13 characters are enough); or a whole request ID, top-up ID or payment reference.",
    none: "No account matches",
    noneHint: "Check the spelling, or search by the beginning of an ID.",
    columns: {
      email: "E-mail",
      balance: "Balance",
      held: "Held",
      keys: "Keys",
      state: "State",
      created: "Created",
    },
    active: "Active",
    frozen: "Frozen",
    paused: "Paused",
    deleted: "Deleted",
    operator: "Operator",
  },
})
