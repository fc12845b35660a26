/** A key's children, and the management tokens with which they are made. */
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query"
import { ShieldAlert } from "lucide-react"
import { useState } from "react"
import { api, unwrap } from "../../api/client.ts"
import { type ApiKey, childrenPage, tokensQuery, useChange } from "../../api/queries.ts"
import { Button, CopyButton } from "../../components/button.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { ConfirmDialog, Dialog } from "../../components/dialog.tsx"
import { ErrorState, Skeleton } from "../../components/feedback.tsx"
import { TextField } from "../../components/form.tsx"
import { typedLine } from "../../i18n/figures.ts"
import { useFormat, texts } from "../../i18n/language.tsx"
import { useMay } from "../../shell/session.tsx"
import { RevokeDialog } from "./dialogs.tsx"
import { hintOf } from "./key-detail.tsx"

interface ChildrenDialogProps {
  readonly apiKey: ApiKey
  readonly onClose: () => void
}

interface Token {
  readonly id: string
  readonly name: string
}

/** What is done in it closes what it was done with, and comes back here. */
export function ChildrenDialog({ apiKey, onClose }: ChildrenDialogProps) {
  const text = useChildrenText()
  const [made, setMade] = useState<string>()
  const [ending, setEnding] = useState<Token>()
  const [child, setChild] = useState<ApiKey>()
  if (made !== undefined) return <TokenSecret token={made} onClose={() => setMade(undefined)} />
  if (ending !== undefined) {
    return <RevokeToken apiKey={apiKey} token={ending} onClose={() => setEnding(undefined)} />
  }
  if (child !== undefined) return <RevokeDialog apiKey={child} onClose={() => setChild(undefined)} />
  return (
    <Dialog title={text.title(apiKey.name)} onClose={onClose} footer={<Button onClick={onClose}>{text.close}</Button>}>
      <p>{text.intro}</p>
      <Tokens apiKey={apiKey} onMade={setMade} onRevoke={setEnding} />
      <List apiKey={apiKey} onRevoke={setChild} />
    </Dialog>
  )
}

interface TokensProps {
  readonly apiKey: ApiKey
  readonly onMade: (token: string) => void
  readonly onRevoke: (token: Token) => void
}

function Tokens({ apiKey, onMade, onRevoke }: TokensProps) {
  const text = useChildrenText()
  const client = useQueryClient()
  const tokens = useQuery(tokensQuery(apiKey.id))
  // Whoever has a token goes on making keys when a membership has ended.
  const mayMake = useMay()("manage")
  const [typed, setTyped] = useState("")
  const name = typedLine(typed)
  const [tried, setTried] = useState(false)
  const isNamed = name !== "" && name.length <= 100
  const make = useChange({
    mutationFn: () => unwrap(api.keys({ id: apiKey.id }).tokens.post({ name })),
    onSuccess: ({ token }) => {
      void client.invalidateQueries(tokensQuery(apiKey.id))
      onMade(token)
    },
  })
  const submit = () => {
    setTried(true)
    if (isNamed && !make.isPending) make.mutate()
  }
  return (
    <section className="key-tokens" aria-label={text.tokens}>
      <h3>{text.tokens}</h3>
      {tokens.error && <ErrorState error={tokens.error} retry={tokens.refetch} />}
      {tokens.data === undefined ? (
        tokens.error === null && <Skeleton lines={2} />
      ) : tokens.data.data.length === 0 ? (
        <p className="key-quiet">{text.noTokens}</p>
      ) : (
        <ul>
          {tokens.data.data.map((token) => (
            <li key={token.id}>
              <span className="key-name">{token.name}</span> <code>{hintOf(token)}</code>
              <Button
                kind="quiet"
                size="small"
                aria-label={text.revokeNamed(token.name)}
                onClick={() => onRevoke(token)}
              >
                {text.revoke}
              </Button>
            </li>
          ))}
        </ul>
      )}
      {make.error && <ErrorState error={make.error} />}
      {mayMake && (
        <form
          noValidate
          onSubmit={(event) => {
            event.preventDefault()
            submit()
          }}
        >
          <TextField
            label={text.name}
            hint={text.nameHint}
            error={tried && !isNamed ? text.nameMissing : undefined}
            value={typed}
            onChange={({ target }) => setTyped(target.value)}
          />
          <Button type="submit" busy={make.isPending}>
            {text.make}
          </Button>
        </form>
      )}
    </section>
  )
}

/** Shown once. */
function TokenSecret({ token, onClose }: { readonly token: string; readonly onClose: () => void }) {
  const text = useChildrenText()
  return (
    <Dialog
      title={text.copyTitle}
      onClose={onClose}
      insistent
      footer={
        <Button kind="primary" onClick={onClose}>
          {text.kept}
        </Button>
      }
    >
      <div className="key-secret">
        <code>{token}</code>
        <CopyButton text={token} what={text.secret} />
      </div>
      <p className="key-notice">
        <ShieldAlert aria-hidden="true" />
        <span>{text.once}</span>
      </p>
    </Dialog>
  )
}

interface RevokeTokenProps {
  readonly apiKey: ApiKey
  readonly token: Token
  readonly onClose: () => void
}

function RevokeToken({ apiKey, token, onClose }: RevokeTokenProps) {
  const text = useChildrenText()
  return (
    <ConfirmDialog
      title={text.revokeTitle(token.name)}
      act={text.revokeNow}
      done={text.revoked(token.name)}
      run={() => unwrap(api.keys({ id: apiKey.id }).tokens({ token: token.id }).revoke.post())}
      stale={[tokensQuery(apiKey.id).queryKey]}
      onClose={onClose}
    >
      <p>{text.revokeText}</p>
    </ConfirmDialog>
  )
}

interface ListProps {
  readonly apiKey: ApiKey
  readonly onRevoke: (child: ApiKey) => void
}

function List({ apiKey, onRevoke }: ListProps) {
  const text = useChildrenText()
  const format = useFormat()
  const list = useInfiniteQuery({
    queryKey: ["keys", "children", apiKey.id],
    queryFn: ({ pageParam }) => childrenPage(apiKey.id, pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  })
  const columns: Column<ApiKey>[] = [
    { id: "name", head: text.columns.name, names: true, cell: ({ name }) => <span className="key-name">{name}</span> },
    { id: "key", head: text.columns.key, cell: ({ last4 }) => <code>…{last4}</code> },
    { id: "status", head: text.columns.status, cell: ({ status }) => text.states[status] },
    {
      id: "spent",
      head: text.columns.spent,
      cell: ({ usage: { budget } }) =>
        budget === null
          ? text.noLimit
          : text.spent(format.rupiah(budget.used_micro), format.rupiah(budget.limit_micro)),
    },
    {
      id: "act",
      head: text.columns.act,
      cell: (child) =>
        child.status === "revoked" ? (
          "–"
        ) : (
          <Button kind="quiet" size="small" aria-label={text.revokeNamed(child.name)} onClick={() => onRevoke(child)}>
            {text.revoke}
          </Button>
        ),
    },
  ]
  return (
    <section aria-label={text.children}>
      <h3>{text.children}</h3>
      <DataTable
        caption={text.children}
        columns={columns}
        rows={list.data?.pages.flatMap(({ data }) => data)}
        rowKey={({ id }) => id}
        error={list.error}
        retry={list.refetch}
        empty={text.noChildren}
        more={list.hasNextPage ? { load: () => void list.fetchNextPage(), busy: list.isFetching } : undefined}
      />
    </section>
  )
}

const useChildrenText = texts({
  id: {
    title: (name: string) => `Kunci anak dari ${name}`,
    intro:
      "Untuk kelas atau tim: sebuah token pengelola membuat kunci anak lewat API (POST /v1/keys), satu untuk setiap orang. Semuanya belanja dari anggaran kunci ini, dan berhenti bersamanya. Token pengelola tidak bisa memanggil model.",
    tokens: "Token pengelola",
    noTokens: "Belum ada token pengelola.",
    name: "Nama token",
    nameHint: "Siapa atau apa yang memakainya.",
    nameMissing: "Beri nama, paling panjang 100 huruf.",
    make: "Buat token",
    copyTitle: "Salin token Anda sekarang",
    once: "Token ini hanya ditampilkan sekali. Siapa pun yang memilikinya dapat membuat dan mencabut kunci anak.",
    secret: "Token pengelola",
    kept: "Sudah saya simpan",
    revoke: "Cabut",
    revokeNamed: (name: string) => `Cabut ${name}`,
    revokeTitle: (name: string) => `Cabut token ${name}?`,
    revokeText: "Token langsung tidak berlaku. Kunci anak yang sudah dibuat tetap bekerja.",
    revokeNow: "Cabut token",
    revoked: (name: string) => `${name} dicabut`,
    close: "Tutup",
    children: "Kunci anak",
    noChildren: "Belum ada kunci anak.",
    columns: { name: "Nama", key: "Kunci", status: "Status", spent: "Terpakai", act: "Tindakan" },
    states: { active: "Aktif", expired: "Kedaluwarsa", revoked: "Dicabut" },
    spent: (spent: string, limit: string) => `${spent} dari ${limit}`,
    noLimit: "Batas kunci induk",
  },
  en: {
    title: (name: string) => `Child keys of ${name}`,
    intro:
      "For a class or a team: a management token makes child keys by API (POST /v1/keys), one for each person. They all spend from this key's budget, and stop with it. A management token makes no model calls.",
    tokens: "Management tokens",
    noTokens: "No management tokens yet.",
    name: "Name of the token",
    nameHint: "Who or what uses it.",
    nameMissing: "Give it a name of at most 100 characters.",
    make: "Create token",
    copyTitle: "Copy your token now",
    once: "This token is shown only once. Whoever has it can make and revoke child keys.",
    secret: "Management token",
    kept: "I have saved it",
    revoke: "Revoke",
    revokeNamed: (name: string) => `Revoke ${name}`,
    revokeTitle: (name: string) => `Revoke the token ${name}?`,
    revokeText: "The token stops at once. Child keys that were made with it work on.",
    revokeNow: "Revoke token",
    revoked: (name: string) => `${name} revoked`,
    close: "Close",
    children: "Child keys",
    noChildren: "No child keys yet.",
    columns: { name: "Name", key: "Key", status: "State", spent: "Spent", act: "Action" },
    states: { active: "Active", expired: "Expired", revoked: "Revoked" },
    spent: (spent: string, limit: string) => `${spent} of ${limit}`,
    noLimit: "The parent's limit",
  },
})
