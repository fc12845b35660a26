/** With which key to call: one made for this visit, or one that the person has. */
import { KeyRound } from "lucide-react"
import { type FormEvent, useState } from "react"
import { Button } from "../../components/button.tsx"
import { EmptyState } from "../../components/empty-state.tsx"
import { ErrorState } from "../../components/error-state.tsx"
import { PasswordField } from "../../components/field.tsx"
import { useFormat } from "../../i18n/format.ts"
import { isWholeKey, type PlaygroundKey, TRIAL_BUDGET_MICRO } from "./key.ts"
import { usePlaygroundText } from "./text.ts"

interface KeyChoiceProps {
  readonly making: { readonly busy: boolean; readonly error: Error | null }
  readonly onMake: (name: string) => void
  readonly onPaste: (secret: string) => void
}

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
