/** What was done to the account, the newest first. */
import { useInfiniteQuery } from "@tanstack/react-query"
import { Download } from "lucide-react"
import { api, unwrap } from "../../api/client.ts"
import { DownloadLink } from "../../components/button.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { Card } from "../../components/layout.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useActivityText } from "./activity-text.ts"
import { deviceOf } from "./device.ts"

const ROWS = 20

const activityPage = (cursor: string | undefined) =>
  unwrap(api.account.activity.get({ query: { limit: ROWS, ...(cursor !== undefined && { cursor }) } }))
type Entry = Awaited<ReturnType<typeof activityPage>>["data"][number]

export function Activity() {
  const text = useActivityText()
  const format = useFormat()
  const details = useDetails()
  const list = useInfiniteQuery({
    queryKey: ["activity"],
    queryFn: ({ pageParam }) => activityPage(pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  })
  const columns: Column<Entry>[] = [
    {
      id: "what",
      head: text.what,
      names: true,
      cell: ({ action }) => text.actions[action as keyof typeof text.actions] ?? <code>{action}</code>,
    },
    { id: "details", head: text.details, cell: (entry) => <span className="settings-detail">{details(entry)}</span> },
    { id: "who", head: text.who, cell: ({ actor, member }) => member?.email ?? text.actors[actor] },
    { id: "when", head: text.when, cell: ({ at }) => format.moment(at) },
  ]
  return (
    <Card
      title={text.title}
      flush
      action={
        <DownloadLink size="small" icon={<Download />} href="/account/activity/export.csv">
          {text.download}
        </DownloadLink>
      }
    >
      <DataTable
        caption={text.title}
        columns={columns}
        rows={list.data?.pages.flatMap(({ data }) => data)}
        rowKey={({ id }) => String(id)}
        error={list.error}
        retry={list.refetch}
        empty={text.none}
        more={list.hasNextPage ? { load: () => void list.fetchNextPage(), busy: list.isFetching } : undefined}
      />
    </Card>
  )
}

/** What it belongs to, and not what differs. */
const isOf = new Set(["parent", "token", "key_id"])

/** Whose name it was, from where, and which settings differ. */
function useDetails(): (entry: Entry) => string {
  const text = useActivityText()
  const format = useFormat()
  const fieldName = (field: unknown) => text.fields[String(field) as keyof typeof text.fields] ?? String(field)
  return ({ name, address, user_agent: userAgent, after, more }) => {
    const fields = after === null ? [] : Object.entries(after as Readonly<Record<string, unknown>>)
    const known = new Map(fields)
    const { browser, system } = deviceOf(userAgent ?? "")
    const listed = known.get("fields")
    const amount = known.get("amount_micro")
    const until = known.get("until")
    const isOwn = known.has("second_factor") || amount !== undefined || until !== undefined
    const changed = Array.isArray(listed) ? listed : fields.map(([field]) => field).filter((field) => !isOf.has(field))
    const says = [
      name,
      address === "" ? null : address,
      [browser, system].filter((part) => part !== undefined).join(", "),
      known.get("second_factor") === true ? text.factor : null,
      typeof amount === "number" ? format.rupiah(BigInt(amount)) : null,
      typeof until === "string" ? text.until(format.moment(until)) : null,
      changed.length === 0 || isOwn ? null : text.changed(changed.map(fieldName).join(", ")),
      more === 0 ? null : text.more(format.number(more)),
    ]
    return says.filter((part) => part !== null && part !== "").join(" · ") || "–"
  }
}
