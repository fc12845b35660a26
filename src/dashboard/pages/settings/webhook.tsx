/** Where events are posted to, and what became of the last of them. */
import { queryOptions, useQuery, useQueryClient } from "@tanstack/react-query"
import { ShieldAlert } from "lucide-react"
import { type FormEvent, useState } from "react"
import { useChange } from "../../api/queries.ts"
import { api, unwrap } from "../../api/client.ts"
import { Button, CopyButton } from "../../components/button.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { Dialog, FormDialog } from "../../components/dialog.tsx"
import { EmptyState, ErrorState, Skeleton, useToasts } from "../../components/feedback.tsx"
import { TextField } from "../../components/form.tsx"
import { Card, FormError } from "../../components/layout.tsx"
import { Tag } from "../../components/values.tsx"
import { useFormat } from "../../i18n/language.tsx"
import { useWebhookText } from "./text.ts"

/** Null where there is none. */
export const webhookQuery = queryOptions({
  queryKey: ["webhook"],
  queryFn: async () => (await unwrap(api.account.webhook.get())).webhook,
})
type Webhook = NonNullable<Awaited<ReturnType<NonNullable<typeof webhookQuery.queryFn>>>>

/** A delivery is on its way for seconds, so the list is looked at again as long as one waits. */
const AGAIN_MS = 2_000
const deliveriesQuery = queryOptions({
  queryKey: ["webhook", "deliveries"],
  queryFn: async () => (await unwrap(api.account.webhook.deliveries.get())).data,
  refetchInterval: ({ state: { data } }) =>
    data?.some(({ state }) => state === "waiting") === true ? AGAIN_MS : false,
})
type Delivery = Awaited<ReturnType<NonNullable<typeof deliveriesQuery.queryFn>>>[number]

export function WebhookSettings() {
  const text = useWebhookText()
  const client = useQueryClient()
  const webhook = useQuery(webhookQuery)
  const [secret, setSecret] = useState<string>()
  const state = webhook.data === undefined || webhook.data === null ? "off" : stateOf(webhook.data)
  return (
    <>
      <Card title={text.title} action={<Tag tone={TONES[state]}>{text.states[state]}</Tag>}>
        {webhook.error !== null && <ErrorState error={webhook.error} retry={webhook.refetch} />}
        {webhook.data !== undefined ? (
          <WebhookForm webhook={webhook.data} onSecret={setSecret} />
        ) : (
          webhook.error === null && <Skeleton lines={3} />
        )}
      </Card>
      {webhook.data && (
        <Card title={text.deliveries} flush>
          <Deliveries />
        </Card>
      )}
      {secret !== undefined && (
        <SecretDialog
          secret={secret}
          onClose={() => {
            setSecret(undefined)
            void client.invalidateQueries({ queryKey: webhookQuery.queryKey })
          }}
        />
      )}
    </>
  )
}

const TONES = { off: "neutral", on: "good", failing: "warn", disabled: "bad" } as const

const stateOf = ({ disabled_at: disabled, failing_since: failing }: Webhook) =>
  disabled !== null ? "disabled" : failing !== null ? "failing" : "on"

interface WebhookFormProps {
  readonly webhook: Webhook | null
  /** A new secret is to be shown. */
  readonly onSecret: (secret: string) => void
}

function WebhookForm({ webhook, onSecret }: WebhookFormProps) {
  const text = useWebhookText()
  const format = useFormat()
  const toasts = useToasts()
  const client = useQueryClient()
  // Until somebody types, the field follows the webhook.
  const [typed, setTyped] = useState<string>()
  const url = typed ?? webhook?.url ?? ""
  const [tried, setTried] = useState(false)
  const [asked, setAsked] = useState<"rotate" | "remove" | undefined>(undefined)
  const looksRight = /^https:\/\/[^\s/@]+\.[^\s@#]+$/.test(url.trim())
  const stale = () => void client.invalidateQueries({ queryKey: webhookQuery.queryKey })
  const shown = (changed: { readonly secret: string | null }) => {
    if (changed.secret === null) toasts.done(text.saved)
    else onSecret(changed.secret)
  }
  const save = useChange({
    mutationFn: (saved: string) => unwrap(api.account.webhook.put({ url: saved })),
    onSuccess: (changed, saved) => {
      shown(changed)
      client.setQueryData(webhookQuery.queryKey, changed.webhook)
      setTyped((since) => (since?.trim() === saved ? undefined : since))
      setTried(false)
    },
  })
  const test = useChange({
    mutationFn: () => unwrap(api.account.webhook.test.post()),
    onSuccess: () => {
      toasts.done(text.tested)
      stale()
    },
  })
  const rotate = useChange({
    mutationFn: () => unwrap(api.account.webhook.rotate.post()),
    onSuccess: (changed) => {
      setAsked(undefined)
      shown(changed)
    },
  })
  const remove = useChange({
    mutationFn: () => unwrap(api.account.webhook.delete()),
    onSuccess: () => {
      setAsked(undefined)
      toasts.done(text.removed)
      client.setQueryData(webhookQuery.queryKey, null)
      setTyped(undefined)
      setTried(false)
    },
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    setTried(true)
    if (!looksRight || save.isPending) return
    test.reset()
    save.mutate(url.trim())
  }
  const sendTest = () => {
    save.reset()
    test.mutate()
  }
  return (
    <>
      <form className="settings-form" onSubmit={submit} noValidate>
        <p className="settings-intro">{text.intro}</p>
        {webhook !== null && webhook.disabled_at !== null && (
          <p className="settings-warning">{text.disabled(format.dateTime(webhook.disabled_at))}</p>
        )}
        {save.error !== null && <FormError error={save.error} refused={text.refused} />}
        {test.error !== null && <FormError error={test.error} refused={text.testRefused} />}
        <TextField
          label={text.url}
          type="url"
          inputMode="url"
          placeholder="https://example.com/loket"
          autoComplete="off"
          maxLength={2_000}
          hint={text.urlHint}
          error={tried && !looksRight ? text.urlWrong : undefined}
          value={url}
          onChange={({ target }) => setTyped(target.value)}
        />
        {webhook !== null && webhook.former_secret_until !== null && (
          <p className="settings-intro">{text.formerUntil(format.dateTime(webhook.former_secret_until))}</p>
        )}
        <div className="settings-actions">
          <Button type="submit" busy={save.isPending}>
            {text.save}
          </Button>
          {webhook !== null && (
            <>
              <Button busy={test.isPending} disabled={webhook.disabled_at !== null} onClick={sendTest}>
                {text.test}
              </Button>
              <Button onClick={() => setAsked("rotate")}>{text.rotate}</Button>
              <Button kind="quiet" onClick={() => setAsked("remove")}>
                {text.remove}
              </Button>
            </>
          )}
        </div>
      </form>
      {asked === "rotate" && (
        <FormDialog
          title={text.rotateTitle}
          submit={text.rotate}
          busy={rotate.isPending}
          error={rotate.error}
          onSubmit={() => rotate.mutate()}
          onClose={() => setAsked(undefined)}
        >
          <p>{text.rotateText}</p>
        </FormDialog>
      )}
      {asked === "remove" && (
        <FormDialog
          title={text.removeTitle}
          submit={text.remove}
          danger
          busy={remove.isPending}
          error={remove.error}
          onSubmit={() => remove.mutate()}
          onClose={() => setAsked(undefined)}
        >
          <p>{text.removeText}</p>
        </FormDialog>
      )}
    </>
  )
}

/** The secret, shown once. */
function SecretDialog({ secret, onClose }: { readonly secret: string; readonly onClose: () => void }) {
  const text = useWebhookText()
  return (
    <Dialog
      title={text.secretTitle}
      onClose={onClose}
      insistent
      footer={
        <Button kind="primary" onClick={onClose}>
          {text.secretKept}
        </Button>
      }
    >
      <div className="key-secret">
        <code>{secret}</code>
        <CopyButton text={secret} what={text.secret} />
      </div>
      <p className="key-notice">
        <ShieldAlert aria-hidden="true" />
        <span>{text.secretOnce}</span>
      </p>
    </Dialog>
  )
}

/** A newer server may say what has no words here. */
const wordFor = (words: Readonly<Record<string, string>>, name: string): string => words[name] ?? name

const DELIVERY_TONES = { taken: "good", waiting: "warn", failed: "bad" } as const

function Deliveries() {
  const text = useWebhookText()
  const format = useFormat()
  const deliveries = useQuery(deliveriesQuery)
  const why = ({ status, problem }: Delivery) =>
    problem !== null ? wordFor(text.problems, problem) : status === null ? "–" : text.answered(String(status))
  const columns: Column<Delivery>[] = [
    { id: "event", head: text.columns.event, names: true, cell: ({ type }) => wordFor(text.events, type) },
    {
      id: "state",
      head: text.columns.state,
      cell: ({ state }) => <Tag tone={DELIVERY_TONES[state]}>{text.deliveryStates[state]}</Tag>,
    },
    { id: "answer", head: text.columns.answer, cell: why },
    { id: "tried", head: text.columns.tried, cell: ({ tried_at: at }) => (at === null ? "–" : format.dateTime(at)) },
    { id: "attempts", head: text.columns.attempts, numeric: true, cell: ({ attempts }) => format.number(attempts) },
    {
      id: "next",
      head: text.columns.next,
      wide: true,
      cell: ({ next_at: at, attempts }) => (at === null || attempts === 0 ? "–" : format.dateTime(at)),
    },
  ]
  return (
    <DataTable
      caption={text.deliveries}
      columns={columns}
      rows={deliveries.data}
      rowKey={({ id }) => id}
      error={deliveries.error}
      retry={deliveries.refetch}
      empty={<EmptyState title={text.noDeliveries} />}
    />
  )
}
