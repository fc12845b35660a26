/**
 * The key that the playground calls with: one that the person pastes, or a trial key with a small budget. Its secret is only in
 * this page's memory. A trial key is revoked when the page is left. If the browser crashed before, it expires after a day; its id is
 * remembered, and the first visit after that revokes it.
 */
import { useQueryClient } from "@tanstack/react-query"
import { KeyRound } from "lucide-react"
import { type FormEvent, useCallback, useEffect, useRef, useState } from "react"
import { keysQuery, useChange } from "../../api/queries.ts"
import { api, ApiFailure, unwrap } from "../../api/client.ts"
import { Button } from "../../components/button.tsx"
import { EmptyState, ErrorState } from "../../components/feedback.tsx"
import { PasswordField } from "../../components/form.tsx"
import { useFormat } from "../../i18n/language.tsx"
import { usePlaygroundText } from "./text.ts"

const TRIAL_BUDGET_MICRO = 5_000_000_000
const TRIAL_REQUESTS_PER_MINUTE = 30

/** The format of a key (decisions §1). */
const WHOLE_KEY = /^sk-loket-[A-Za-z0-9]{46}$/
const isWholeKey = (text: string): boolean => WHOLE_KEY.test(text)

interface PlaygroundKey {
  readonly secret: string
  /** Of a trial key. */
  readonly trialId?: string
}

export function usePlaygroundKey() {
  const client = useQueryClient()
  const [key, setKey] = useState<PlaygroundKey>()
  const trial = useRef<string>(undefined)
  const left = useRef(false)
  const end = useCallback(() => {
    const id = trial.current
    trial.current = undefined
    setKey(undefined)
    if (id === undefined) return
    void revoke(id)
      // A list that is loading may be older than the revocation.
      .then(() => client.cancelQueries(keysQuery))
      .then(() => client.invalidateQueries(keysQuery))
  }, [client])
  const make = useChange({
    mutationFn: (name: string) =>
      unwrap(
        api.keys.post({
          name,
          spending_limit_micro: TRIAL_BUDGET_MICRO,
          spending_period: "total",
          requests_per_minute: TRIAL_REQUESTS_PER_MINUTE,
          expires_at: new Date(Date.now() + LEFT_AFTER_MS).toISOString(),
        }),
      ),
    onSuccess: ({ id, key: secret }) => {
      rememberKey(id, Date.now())
      trial.current = id
      setKey({ secret, trialId: id })
      if (left.current) return end()
      void client.invalidateQueries(keysQuery)
    },
  })
  useEffect(() => {
    left.current = false
    for (const id of abandonedKeys(Date.now())) void revoke(id)
    addEventListener("pagehide", end)
    return () => {
      removeEventListener("pagehide", end)
      left.current = true
      end()
    }
  }, [end])
  const paste = (secret: string) => setKey({ secret })
  return { key, make, paste, end }
}

/** The request survives when the page is closed meanwhile. */
async function revoke(id: string): Promise<void> {
  try {
    await unwrap(api.keys({ id }).revoke.post(undefined, { fetch: { keepalive: true } }))
  } catch (error) {
    // The key belongs to another account, or is gone. This account can never revoke it, so it is forgotten.
    if (!(error instanceof ApiFailure && error.code === "resource.not_found")) return
  }
  forgetKey(id)
}

/** The ids, never the secrets, of trial keys that this browser made and has not seen revoked. */
const STORED = "loket.trial-keys"
/** A younger key may be in use in another tab. */
const LEFT_AFTER_MS = 24 * 60 * 60 * 1_000

type Remembered = Readonly<Record<string, number>>

/** The keys that are no longer in use. */
const abandonedKeys = (now: number): readonly string[] =>
  Object.entries(remembered()).flatMap(([id, madeAt]) => (now - madeAt >= LEFT_AFTER_MS ? [id] : []))

const rememberKey = (id: string, now: number): void => store({ ...remembered(), [id]: now })

function forgetKey(id: string): void {
  const { [id]: _, ...others } = remembered()
  store(others)
}

function remembered(): Remembered {
  try {
    return JSON.parse(localStorage.getItem(STORED) ?? "{}") as Remembered
  } catch {
    return {}
  }
}

const store = (keys: Remembered): void => localStorage.setItem(STORED, JSON.stringify(keys))

interface KeyChoiceProps {
  readonly making: { readonly busy: boolean; readonly error: Error | null }
  readonly onMake: (name: string) => void
  readonly onPaste: (secret: string) => void
}

/** The choice of a key: a new trial key, or one that the person has. */
export function KeyChoice({ making, onMake, onPaste }: KeyChoiceProps) {
  const text = usePlaygroundText()
  const format = useFormat()
  const budget = format.rupiah(TRIAL_BUDGET_MICRO)
  return (
    <div className="key-choice">
      <EmptyState
        icon={<KeyRound />}
        title={text.chooseKey}
        action={
          <>
            <Button kind="primary" busy={making.busy} onClick={() => onMake(text.keyName(format.dateTime(Date.now())))}>
              {text.makeKey}
            </Button>
            <p className="key-choice-hint">{text.makeKeyHint(budget)}</p>
          </>
        }
      >
        {text.chooseKeyHint}
      </EmptyState>
      {making.error && <ErrorState error={making.error} />}
      <PasteKey onPaste={onPaste} />
    </div>
  )
}

function PasteKey({ onPaste }: Pick<KeyChoiceProps, "onPaste">) {
  const text = usePlaygroundText()
  const [written, setWritten] = useState("")
  const [wrong, setWrong] = useState(false)
  const use = (event: FormEvent) => {
    event.preventDefault()
    const secret = written.trim()
    if (isWholeKey(secret)) onPaste(secret)
    else setWrong(true)
  }
  return (
    <form className="paste-key" onSubmit={use} noValidate>
      <PasswordField
        label={text.pasteKey}
        hint={text.pasteHint}
        error={wrong ? text.pasteWrong : undefined}
        placeholder="sk-loket-…"
        autoComplete="off"
        value={written}
        onChange={({ target }) => {
          setWritten(target.value)
          setWrong(false)
        }}
      />
      <Button type="submit">{text.useKey}</Button>
    </form>
  )
}

interface KeyInUseProps {
  readonly playgroundKey: PlaygroundKey
  readonly onEnd: () => void
}

export function KeyInUse({ playgroundKey: { secret, trialId }, onEnd }: KeyInUseProps) {
  const text = usePlaygroundText()
  const format = useFormat()
  return (
    <div className="key-in-use">
      <h3>{text.key}</h3>
      <code>
        {secret.slice(0, 13)}…{secret.slice(-4)}
      </code>
      <p>{trialId === undefined ? text.ownKey : text.madeKey(format.rupiah(TRIAL_BUDGET_MICRO))}</p>
      <Button size="small" onClick={onEnd}>
        {trialId === undefined ? text.forget : text.revoke}
      </Button>
    </div>
  )
}
