/** The field for the next message, with the button that sends it or stops the answer. */
import { ArrowUp, Square } from "lucide-react"
import { type FormEvent, type KeyboardEvent, useId, useRef, useState } from "react"
import { Button } from "../../components/button.tsx"
import { usePlaygroundText } from "./text.ts"

interface ComposerProps {
  readonly value: string
  readonly busy: boolean
  /** Why nothing can be sent now. */
  readonly problem: string | undefined
  readonly onChange: (value: string) => void
  readonly onSend: () => void
  readonly onStop: () => void
}

export function Composer({ value, busy, problem, onChange, onSend, onStop }: ComposerProps) {
  const text = usePlaygroundText()
  const id = useId()
  // On a touch screen Enter starts a new line, and the button sends.
  const [keyboard] = useState(() => !matchMedia("(pointer: coarse)").matches)
  const field = useRef<HTMLTextAreaElement>(null)
  const send = (event: FormEvent | KeyboardEvent) => {
    event.preventDefault()
    if (busy || problem !== undefined || value.trim() === "") return field.current?.focus()
    onSend()
  }
  return (
    <form className="composer" onSubmit={send}>
      <label className="visually-hidden" htmlFor={id}>
        {text.message}
      </label>
      <textarea
        ref={field}
        id={id}
        rows={2}
        autoFocus
        placeholder={text.messagePlaceholder}
        aria-describedby={`${id}-hint`}
        value={value}
        onChange={({ target }) => onChange(target.value)}
        onKeyDown={(event) => {
          // Enter may also confirm a word in an input method.
          const isSending = event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing
          if (keyboard && isSending) send(event)
        }}
      />
      <div className="composer-foot">
        <p id={`${id}-hint`} className={problem === undefined ? undefined : "is-bad"} role="status">
          {problem ?? (keyboard ? text.messageHint : "")}
        </p>
        {busy ? (
          <Button icon={<Square />} onClick={onStop}>
            {text.stop}
          </Button>
        ) : (
          <Button type="submit" kind="primary" icon={<ArrowUp />}>
            {text.send}
          </Button>
        )}
      </div>
    </form>
  )
}
