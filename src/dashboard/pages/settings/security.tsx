/** Who can get into the account: its password and its sessions. */
import { queryOptions, useQuery, useQueryClient } from "@tanstack/react-query"
import { type FormEvent, useState } from "react"
import { api, ApiFailure, isSignedOut, unwrap } from "../../api/client.ts"
import { accountQuery, useChange } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { ErrorState, useToasts } from "../../components/feedback.tsx"
import { isNewPassword, PasswordField } from "../../components/form.tsx"
import { Card } from "../../components/layout.tsx"
import { Ago, Tag } from "../../components/values.tsx"
import { useFormat } from "../../i18n/language.tsx"
import { useAccount, useSession } from "../../shell/session.tsx"
import { deviceOf } from "../../api/browser.ts"
import { useSettingsText } from "./text.ts"

/**
 * Changes the password. The server ends every session, this one too, so that a stranger is signed out. The page signs in again
 * at once with the new password.
 */
export function PasswordChange() {
  const text = useSettingsText()
  const toasts = useToasts()
  const client = useQueryClient()
  const passwordError = usePasswordError()
  const { email } = useAccount()
  const { ended } = useSession()
  const [current, setCurrent] = useState("")
  const [replacement, setReplacement] = useState("")
  const [tooShort, setTooShort] = useState(false)
  const change = useChange({
    mutationFn: async () => {
      await unwrap(api.auth.password.post({ current, new: replacement }))
      return await unwrap(api.auth["sign-in"].post({ email, password: replacement }))
    },
    onSuccess: async (answer) => {
      // The second factor is asked for on the page of the sign-in.
      if ("second_factor" in answer) return await ended()
      client.setQueryData(accountQuery.queryKey, answer.account)
      setCurrent("")
      setReplacement("")
      await client.invalidateQueries(sessionsQuery)
      toasts.done(text.passwordChanged)
    },
  })
  const wrong = passwordError(change.error)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    const isShort = !isNewPassword(replacement)
    setTooShort(isShort)
    if (!isShort && !change.isPending) change.mutate()
  }
  return (
    <Card title={text.password}>
      <form className="settings-form" onSubmit={submit}>
        <p className="settings-intro">{text.passwordIntro}</p>
        {change.error !== null && wrong === undefined && <ErrorState error={change.error} />}
        {/* For password managers, which store a password with its account. */}
        <input type="text" autoComplete="username" value={email} readOnly hidden />
        <PasswordField
          label={text.currentPassword}
          autoComplete="current-password"
          maxLength={256}
          required
          error={wrong}
          value={current}
          onChange={({ target }) => setCurrent(target.value)}
        />
        <PasswordField
          label={text.newPassword}
          autoComplete="new-password"
          maxLength={256}
          required
          hint={text.newPasswordHint}
          error={tooShort ? text.passwordShort : undefined}
          value={replacement}
          onChange={({ target }) => setReplacement(target.value)}
        />
        <div className="settings-actions">
          <Button type="submit" busy={change.isPending}>
            {text.changePassword}
          </Button>
        </div>
      </form>
    </Card>
  )
}

/** The text for a refused password; undefined for any other error. */
export function usePasswordError(): (error: Error | null) => string | undefined {
  const text = useSettingsText()
  const format = useFormat()
  return (error) => {
    if (!(error instanceof ApiFailure) || !isSignedOut(error)) return undefined
    return error.retryAfterS === undefined ? text.passwordWrong : text.tooMany(format.number(error.retryAfterS))
  }
}

/** The open sessions of the account. Each can be ended. */
const sessionsQuery = queryOptions({
  queryKey: ["sessions"],
  queryFn: async () => (await unwrap(api.account.sessions.get())).data,
})
type OpenSession = Awaited<ReturnType<NonNullable<typeof sessionsQuery.queryFn>>>[number]

export function Sessions() {
  const text = useSettingsText()
  const format = useFormat()
  const toasts = useToasts()
  const client = useQueryClient()
  const sessions = useQuery(sessionsQuery)
  const end = useChange({
    /** Ends one session, or without an id all others. */
    mutationFn: async (id: string | undefined) => {
      if (id === undefined) await unwrap(api.account.sessions.delete())
      else await unwrap(api.account.sessions({ id }).delete())
    },
    onSuccess: async (_, id) => {
      await client.invalidateQueries(sessionsQuery)
      toasts.done(id === undefined ? text.othersEnded : text.ended)
    },
    // The session may have ended meanwhile; then the list is out of date.
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
    { id: "seen", head: text.lastSeen, cell: (session) => <Ago time={session.last_seen_at} /> },
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
