/** The account's keys: what each may spend and has used, live; making, changing, rotating and revoking them; and their runs. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query"
import { KeyRound, Plus } from "lucide-react"
import { useState } from "react"
import { Link } from "wouter"
import { type ApiKey, keysPage, keysQuery, type Run, runsPage, untilNext } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { Dialog } from "../../components/dialog.tsx"
import { EndRunDialog, useRunText } from "../../components/spending.tsx"
import { EmptyState, ErrorState, Skeleton } from "../../components/feedback.tsx"
import { Card, Page } from "../../components/layout.tsx"
import { useFormat } from "../../i18n/language.tsx"
import { useMay } from "../../shell/session.tsx"
import { BreakerDialog } from "./breaker.tsx"
import { ChildrenDialog } from "./children.tsx"
import { RevokeDialog, RevokedDialog, RotateDialog, type Secret, SecretDialog, TryDialog } from "./dialogs.tsx"
import { hintOf, type KeyAction } from "./key-detail.tsx"
import { CreateDialog, EditDialog } from "./key-form.tsx"
import { KeyTable } from "./key-table.tsx"
import { useKeysText } from "./text.ts"

/** Usage of rate windows falls without an event, so it is polled while there is some. */
const WINDOW_POLL_MS = 3_000

type Open = { readonly action: "create" } | { readonly action: KeyAction; readonly apiKey: ApiKey }

export default function KeysPage() {
  const text = useKeysText()
  const keys = useQuery({
    ...keysQuery,
    refetchInterval: ({ state }) =>
      state.data?.keys.some(hasUsedWindow) ? WINDOW_POLL_MS : untilExpiry(state.data?.keys),
  })
  const [open, setOpen] = useState<Open>()
  const [secret, setSecret] = useState<Secret>()
  const close = () => setOpen(undefined)
  const reveal = (made: Secret) => {
    close()
    setSecret(made)
  }
  const active = keys.data?.keys.filter(({ status }) => status !== "revoked") ?? []
  const acting = open?.action === "create" ? undefined : open
  const acted = active.find(({ id }) => id === acting?.apiKey.id)
  const may = useMay()
  const create = may("build") && (
    <Button kind="primary" icon={<Plus />} onClick={() => setOpen({ action: "create" })}>
      {text.create}
    </Button>
  )
  return (
    <Page title={text.title} intro={text.intro} actions={create} wide>
      {keys.data === undefined ? (
        keys.error ? (
          <ErrorState error={keys.error} retry={keys.refetch} />
        ) : (
          <Card>
            <Skeleton lines={10} />
          </Card>
        )
      ) : (
        <>
          {keys.error && <ErrorState error={keys.error} retry={keys.refetch} />}
          {active.length === 0 ? (
            <Card flush>
              <EmptyState icon={<KeyRound />} title={text.none}>
                {text.noneHint}
              </EmptyState>
            </Card>
          ) : (
            <KeyTable keys={active} onAct={(apiKey, action) => setOpen({ action, apiKey })} />
          )}
          <Revoked latest={keys.data.keys.filter(({ status }) => status === "revoked")} next={keys.data.next} />
        </>
      )}
      {open?.action === "create" && <CreateDialog onClose={close} onCreated={reveal} />}
      {acting !== undefined && (
        <Acting
          action={acting.action}
          apiKey={acted ?? acting.apiKey}
          isRevoked={acted === undefined}
          onClose={close}
          onRotated={reveal}
        />
      )}
      {secret !== undefined && <SecretDialog secret={secret} onClose={() => setSecret(undefined)} />}
    </Page>
  )
}

/** A key expires without an event. */
const untilExpiry = (keys: readonly ApiKey[] = []) =>
  untilNext(keys.flatMap(({ status, expires_at: at }) => (status === "active" && at !== null ? [at] : [])))

const hasUsedWindow = ({ usage: { requests, tokens } }: ApiKey): boolean =>
  (requests?.used ?? 0) > 0 || (tokens?.used ?? 0) > 0

interface ActingProps {
  readonly action: KeyAction
  readonly apiKey: ApiKey
  /** Since the dialog was opened. */
  readonly isRevoked: boolean
  readonly onClose: () => void
  readonly onRotated: (secret: Secret) => void
}

function Acting({ action, apiKey, isRevoked, onClose, onRotated }: ActingProps) {
  // The dialog that revokes a key closes itself, and to revoke it once more does nothing.
  if (action === "revoke") return <RevokeDialog apiKey={apiKey} onClose={onClose} />
  if (isRevoked) return <RevokedDialog apiKey={apiKey} onClose={onClose} />
  if (action === "try") return <TryDialog apiKey={apiKey} onClose={onClose} />
  if (action === "edit") return <EditDialog apiKey={apiKey} onClose={onClose} />
  if (action === "breaker") return <BreakerDialog apiKey={apiKey} onClose={onClose} />
  if (action === "children") return <ChildrenDialog apiKey={apiKey} onClose={onClose} />
  if (action === "runs") return <RunsDialog apiKey={apiKey} onClose={onClose} />
  return <RotateDialog apiKey={apiKey} onClose={onClose} onRotated={onRotated} />
}

interface RevokedProps {
  readonly latest: readonly ApiKey[]
  /** The cursor of older ones, if there are any. */
  readonly next: string | null
}

/** Revoked keys, folded away. */
function Revoked({ latest, next }: RevokedProps) {
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

interface RunsDialogProps {
  readonly apiKey: ApiKey
  readonly onClose: () => void
}

/**
 * A key's runs, the newest first: what each may spend, has spent, and when it ends. The end of one closes it, and
 * comes back here.
 */
function RunsDialog({ apiKey, onClose }: RunsDialogProps) {
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
