/** Keys that no longer work, folded away. */
import { useInfiniteQuery } from "@tanstack/react-query"
import { useState } from "react"
import { type ApiKey, keysPage } from "../../api/queries.ts"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { useFormat } from "../../i18n/format.ts"
import { hintOf } from "./hint.ts"
import { useKeysText } from "./text.ts"

interface RevokedProps {
  readonly latest: readonly ApiKey[]
  /** Where older ones begin, if there are any. */
  readonly next: string | null
}

export function Revoked({ latest, next }: RevokedProps) {
  const text = useKeysText()
  const [asked, setAsked] = useState(false)
  const older = useInfiniteQuery({
    queryKey: ["keys", "older", next],
    queryFn: ({ pageParam }) => keysPage(pageParam),
    initialPageParam: next ?? undefined,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    enabled: asked && next !== null,
  })
  const known = older.data?.pages.flatMap(({ data }) => data) ?? []
  const keys = [...latest, ...known]
  const hasMore = older.data === undefined ? next !== null : older.hasNextPage
  const load = () => (older.data === undefined ? setAsked(true) : void older.fetchNextPage())
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
  const count = `${format.number(keys.length)}${hasMore ? "+" : ""}`
  const title = text.revokedKeys(count, keys.length === 1 && !hasMore)
  return (
    <details className="card card-flush keys-revoked">
      <summary>{title}</summary>
      <DataTable
        caption={title}
        columns={columns}
        rows={keys}
        error={older.error}
        retry={older.refetch}
        more={hasMore ? { load, busy: older.isFetching } : undefined}
        rowKey={({ id }) => id}
        empty={null}
      />
    </details>
  )
}
