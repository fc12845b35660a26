/** Where the next message is written: its words, and its images, which are chosen, pasted or dropped. */
import { ArrowUp, ImagePlus, Square, X } from "lucide-react"
import { type ClipboardEvent, type DragEvent, type FormEvent, type KeyboardEvent, useId, useRef, useState } from "react"
import { Button, IconButton } from "../../components/button.tsx"
import { indonesianFor } from "../../components/failure-words.ts"
import { useFormat } from "../../i18n/format.ts"
import { type Language, useLanguage } from "../../i18n/language.tsx"
import type { Forecast } from "./forecast.ts"
import { IMAGE_TYPES, imageOf } from "./images.ts"
import { usePlaygroundText } from "./text.ts"

interface ComposerProps {
  readonly value: string
  /** What goes along with it, as `data:` addresses. */
  readonly images: readonly string[]
  /** How many images there may be; undefined for a model that takes none. */
  readonly room: number | undefined
  readonly busy: boolean
  /** Of the message as it is typed. */
  readonly forecast: Forecast | undefined
  /** Why nothing can be sent now. */
  readonly problem: string | undefined
  readonly onChange: (value: string) => void
  readonly onImages: (images: readonly string[]) => void
  readonly onSend: () => void
  readonly onStop: () => void
}

/** Why the message would be refused, in the person's language. */
function refusedFor(forecast: Forecast | undefined, language: Language): string | undefined {
  if (forecast?.type !== "refused") return undefined
  return (language === "id" ? indonesianFor(forecast.code) : undefined) ?? forecast.message
}

/** The field for the next message and its images, with the button that sends it or stops the answer. */
export function Composer(props: ComposerProps) {
  const { value, images, room, busy, forecast, problem, onChange, onImages, onSend, onStop } = props
  const text = usePlaygroundText()
  const format = useFormat()
  const { language } = useLanguage()
  const id = useId()
  // On a touch screen Enter starts a new line, and the button sends.
  const [keyboard] = useState(() => !matchMedia("(pointer: coarse)").matches)
  const field = useRef<HTMLTextAreaElement>(null)
  const files = useRef<HTMLInputElement>(null)
  const [refused, setRefused] = useState<string>()
  const trouble = problem ?? refused ?? refusedFor(forecast, language)
  // Images arrive after their reading, in the order in which they were given.
  const attached = useRef(images)
  attached.current = images
  const attach = async (files: readonly File[]) => {
    if (files.length === 0) return
    if (room === undefined) return setRefused(text.noImages)
    setRefused(undefined)
    for (const file of files) {
      const image = await imageOf(file)
      if (image === undefined) setRefused(text.notAnImage)
      else if (attached.current.length >= room) return setRefused(text.tooManyImages(format.number(room)))
      else {
        attached.current = [...attached.current, image]
        onImages(attached.current)
      }
    }
  }
  const attachFrom = (data: DataTransfer, event: ClipboardEvent | DragEvent) => {
    // Text, which may come with a picture of it, is pasted as text.
    if (data.files.length === 0 || data.types.includes("text/plain")) return
    event.preventDefault()
    void attach([...data.files])
  }
  const send = (event: FormEvent | KeyboardEvent) => {
    event.preventDefault()
    if (busy || problem !== undefined || (value.trim() === "" && images.length === 0)) return field.current?.focus()
    onSend()
  }
  return (
    <form
      className="composer"
      onSubmit={send}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => attachFrom(event.dataTransfer, event)}
    >
      {images.length > 0 && (
        <ul className="playground-images">
          {images.map((url, index) => (
            <li key={url.slice(-64)}>
              <img src={url} alt={text.image(index + 1)} />
              <IconButton
                size="small"
                label={text.removeImage(index + 1)}
                onClick={() => onImages(images.filter((_, at) => at !== index))}
              >
                <X />
              </IconButton>
            </li>
          ))}
        </ul>
      )}
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
        onPaste={(event) => attachFrom(event.clipboardData, event)}
        onChange={({ target }) => onChange(target.value)}
        onKeyDown={(event) => {
          // Enter may also confirm a word in an input method.
          const isSending = event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing
          if (keyboard && isSending) send(event)
        }}
      />
      <div className="composer-foot">
        <p id={`${id}-hint`} className={trouble === undefined ? undefined : "is-bad"} role="status">
          {trouble ??
            (forecast?.type === "cost"
              ? text.atMost(format.rupiah(forecast.mostMicro))
              : keyboard
                ? text.messageHint
                : "")}
        </p>
        {room !== undefined && (
          <>
            <input
              ref={files}
              type="file"
              hidden
              multiple
              accept={IMAGE_TYPES.join()}
              onChange={({ target }) => {
                void attach([...(target.files ?? [])])
                // The same file may be chosen again.
                target.value = ""
              }}
            />
            <IconButton label={text.attach} onClick={() => files.current?.click()}>
              <ImagePlus />
            </IconButton>
          </>
        )}
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
