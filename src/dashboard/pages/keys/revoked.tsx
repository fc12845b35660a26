/** Keys that no longer work, folded away. */
import type { ApiKey } from "../../api/queries.ts"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { useFormat } from "../../i18n/format.ts"
import { hintOf } from "./hint.ts"
import { useKeysText } from "./text.ts"

export function Revoked({ keys }: { readonly keys: readonly ApiKey[] }) {
  const text = useKeysText()
  const format = useFormat()
  if (keys.length === 0) return null
  const columns: Column<ApiKey>[] = [
    { id: "name", head: text.columns.name, names: true, cell: ({ name }) => <span className="key-name">{name}</span> },
    { id: "key", head: text.columns.key, cell: (key) => <code>{hintOf(key)}</code> },
    { id: "created", head: text.columns.created, cell: (key) => format.date(key.created_at) },
    {
      id: "revoked",
      head: text.columns.revoked,
      cell: ({ revoked_at: at }) => (at === null ? "–" : format.dateTime(at)),
    },
  ]
  const title = text.revokedKeys(format.number(keys.length), keys.length === 1)
  return (
    <details className="card card-flush keys-revoked">
      <summary>{title}</summary>
      <DataTable caption={title} columns={columns} rows={keys} rowKey={({ id }) => id} empty={null} />
    </details>
  )
}
