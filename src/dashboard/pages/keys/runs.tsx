/** A key's runs, the newest first: what each may spend, has spent, and when it ends. */
import { useInfiniteQuery } from "@tanstack/react-query"
import { useState } from "react"
import { Link } from "wouter"
import { type ApiKey, type Run, runsPage } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { Dialog } from "../../components/dialog.tsx"
import { EndRunDialog } from "../../components/end-run.tsx"
import { useRunText } from "../../components/run-text.ts"
import { useFormat } from "../../i18n/format.ts"
import { useMay } from "../../shell/session.tsx"

interface RunsDialogProps {
  readonly apiKey: ApiKey
  readonly onClose: () => void
}

/** The end of one closes it, and comes back here. */
export function RunsDialog({ apiKey, onClose }: RunsDialogProps) {
  const text = useRunText()
  const [ending, setEnding] = useState<Run>()
  if (ending !== undefined) return <EndRunDialog run={ending} onClose={() => setEnding(undefined)} />
  return (
    <Dialog
      title={text.titleOf(apiKey.name)}
      onClose={onClose}
      footer={<Button onClick={onClose}>{text.close}</Button>}
    >
      <p>{text.intro}</p>
      <List apiKey={apiKey} onEnd={setEnding} />
    </Dialog>
  )
}

function List({ apiKey, onEnd }: { readonly apiKey: ApiKey; readonly onEnd: (run: Run) => void }) {
  const text = useRunText()
  const format = useFormat()
  const mayEnd = useMay()("build")
  const list = useInfiniteQuery({
    queryKey: ["runs", apiKey.id],
    queryFn: ({ pageParam }) => runsPage(apiKey.id, pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  })
  const columns: Column<Run>[] = [
    {
      id: "name",
      head: text.columns.name,
      names: true,
      cell: ({ id, name }) => (
        <Link className="key-name" href={`/usage?run=${encodeURIComponent(id)}`}>
          {name}
        </Link>
      ),
    },
    {
      id: "spent",
      head: text.columns.spent,
      cell: ({ spent_micro: spent, budget_micro: budget }) => text.of(format.rupiah(spent), format.rupiah(budget)),
    },
    {
      id: "ends",
      head: text.columns.ends,
      cell: ({ ends_at: at, status }) => (status === "ended" ? text.ended(format.dateTime(at)) : format.dateTime(at)),
    },
    {
      id: "act",
      head: text.columns.act,
      cell: (run) =>
        mayEnd && run.status === "open" ? (
          <Button kind="quiet" size="small" aria-label={text.endNamed(run.name)} onClick={() => onEnd(run)}>
            {text.end}
          </Button>
        ) : (
          "–"
        ),
    },
  ]
  return (
    <DataTable
      caption={text.list}
      columns={columns}
      rows={list.data?.pages.flatMap(({ data }) => data)}
      rowKey={({ id }) => id}
      error={list.error}
      retry={list.refetch}
      empty={text.none}
      more={list.hasNextPage ? { load: () => void list.fetchNextPage(), busy: list.isFetching } : undefined}
    />
  )
}
