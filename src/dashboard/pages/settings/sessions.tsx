/** Where the account is signed in, and the end of that. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query"
import { api } from "../../api/client.ts"
import { told } from "../../api/failure.ts"
import { Button } from "../../components/button.tsx"
import { Card } from "../../components/card.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { ErrorState } from "../../components/error-state.tsx"
import { Tag } from "../../components/tag.tsx"
import { useToasts } from "../../components/toast.tsx"
import { useFormat } from "../../i18n/format.ts"
import { type OpenSession, sessionsQuery } from "./data.ts"
import { deviceOf } from "./device.ts"
import { useSettingsText } from "./text.ts"

export function Sessions() {
  const text = useSettingsText()
  const format = useFormat()
  const toasts = useToasts()
  const client = useQueryClient()
  const sessions = useQuery(sessionsQuery)
  const end = useMutation({
    /** One, or without its id all others. */
    mutationFn: async (id: string | undefined) => {
      if (id === undefined) await told(api.account.sessions.delete())
      else await told(api.account.sessions({ id }).delete())
    },
    onSuccess: async (_, id) => {
      await client.invalidateQueries(sessionsQuery)
      toasts.done(id === undefined ? text.othersEnded : text.ended)
    },
    // One that has ended by itself meanwhile is no longer in the list.
    onError: () => client.invalidateQueries(sessionsQuery),
  })
  const deviceName = ({ user_agent: userAgent }: OpenSession) => {
    const { browser, system } = deviceOf(userAgent)
    if (browser !== undefined && system !== undefined) return text.deviceOn(browser, system)
    return browser ?? system ?? (userAgent === "" ? text.unknownDevice : userAgent)
  }
  const columns: Column<OpenSession>[] = [
    {
      id: "device",
      head: text.device,
      names: true,
      cell: (session) => <span title={session.user_agent}>{deviceName(session)}</span>,
    },
    { id: "address", head: text.address, cell: ({ address }) => (address === "" ? "–" : address) },
    { id: "signed-in", head: text.signedInAt, wide: true, cell: (session) => format.dateTime(session.created_at) },
    { id: "seen", head: text.lastSeen, cell: (session) => format.ago(session.last_seen_at, Date.now()) },
    {
      id: "action",
      head: text.action,
      numeric: true,
      cell: (session) =>
        session.current ? (
          <Tag tone="accent">{text.current}</Tag>
        ) : (
          <Button
            size="small"
            aria-label={text.endOf(deviceName(session))}
            busy={end.isPending && end.variables === session.id}
            onClick={() => end.mutate(session.id)}
          >
            {text.end}
          </Button>
        ),
    },
  ]
  const hasOthers = sessions.data?.some(({ current }) => !current) ?? false
  return (
    <Card
      title={text.sessions}
      flush
      action={
        hasOthers && (
          <Button
            size="small"
            busy={end.isPending && end.variables === undefined}
            onClick={() => end.mutate(undefined)}
          >
            {text.endOthers}
          </Button>
        )
      }
    >
      {end.error !== null && <ErrorState error={end.error} />}
      <DataTable
        caption={text.sessions}
        columns={columns}
        rows={sessions.data}
        rowKey={({ id }) => id}
        error={sessions.error}
        retry={sessions.refetch}
        empty={text.sessionsIntro}
      />
    </Card>
  )
}
