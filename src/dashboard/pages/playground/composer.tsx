/** Where the next message is written: its words, its images, which are chosen, pasted or dropped, and what it would cost. */
import { ArrowUp, ImagePlus, Square, X } from "lucide-react"
import {
  type ClipboardEvent,
  type DragEvent,
  type FormEvent,
  type KeyboardEvent,
  useEffect,
  useId,
  useRef,
  useState,
} from "react"
import { Button, IconButton } from "../../components/button.tsx"
import { indonesianFor } from "../../components/text.ts"
import { useFormat, type Language, useLanguage } from "../../i18n/language.tsx"
import { type Asked, requestOf } from "./stream.ts"
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

/** Images of one message, and of a conversation: what is asked later brings all images along. */
export const MAX_IMAGES = 4
export const MAX_IN_CONVERSATION = 12

/** Pixels of the longer side. */
const EDGE = 1_568
/** Bytes of a file that is read at all, and of one that is sent as it is. */
const MAX_BYTES = 20 * 1024 * 1024
const SMALL_BYTES = 400 * 1024
const JPEG_QUALITY = 0.85

const IMAGE_TYPES = ["image/png", "image/jpeg", "image/webp", "image/gif"] as const

/**
 * An image that a person attaches, as a `data:` address; undefined where it is none, or too large to be read. A large one is
 * made smaller here, in the browser: models look at no more pixels than `EDGE`, and each is sent again with every further
 * question.
 */
async function imageOf(file: File): Promise<string | undefined> {
  if (!(IMAGE_TYPES as readonly string[]).includes(file.type) || file.size > MAX_BYTES) return undefined
  let bitmap: ImageBitmap
  try {
    bitmap = await createImageBitmap(file)
  } catch {
    return undefined
  }
  try {
    const { width, height } = bitmap
    const scale = Math.min(1, EDGE / Math.max(width, height))
    if (scale === 1 && file.size <= SMALL_BYTES) return await addressOf(file)
    const canvas = new OffscreenCanvas(Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale)))
    const context = canvas.getContext("2d")
    if (context === null) return undefined
    // JPEG has no transparency, and would show it black.
    context.fillStyle = "#fff"
    context.fillRect(0, 0, canvas.width, canvas.height)
    context.drawImage(bitmap, 0, 0, canvas.width, canvas.height)
    return await addressOf(await canvas.convertToBlob({ type: "image/jpeg", quality: JPEG_QUALITY }))
  } finally {
    bitmap.close()
  }
}

const addressOf = (blob: Blob): Promise<string> =>
  new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.addEventListener("load", () => resolve(reader.result as string))
    reader.addEventListener("error", () => reject(reader.error ?? new Error("unreadable")))
    reader.readAsDataURL(blob)
  })

type Forecast =
  | { readonly type: "cost"; readonly mostMicro: number }
  | { readonly type: "refused"; readonly code: string; readonly message: string }

/** So long nothing has been typed: a key has sixty dry runs in a minute. */
const PAUSE_MS = 1_000

/**
 * What the next message would cost at the most, or why it would be refused: a dry run of it, for which nothing is
 * charged. Undefined while it is not known, and where there is nothing to ask.
 */
export function useForecast(asked: Asked | undefined): Forecast | undefined {
  const [answer, setAnswer] = useState<{ readonly of: string; readonly forecast: Forecast | undefined }>()
  const question = asked && JSON.stringify(asked)
  useEffect(() => {
    if (question === undefined) return undefined
    const leaving = new AbortController()
    const timer = setTimeout(() => {
      forecastOf(JSON.parse(question) as Asked, leaving.signal).then(
        (forecast) => setAnswer({ of: question, forecast }),
        // The message can be sent without it.
        () => {},
      )
    }, PAUSE_MS)
    return () => {
      clearTimeout(timer)
      leaving.abort()
    }
  }, [question])
  return answer?.of === question ? answer?.forecast : undefined
}

interface DryRun {
  readonly cost: { readonly most_micro: number } | null
  readonly refused_by: { readonly code: string; readonly error: string } | null
}

async function forecastOf(asked: Asked, signal: AbortSignal): Promise<Forecast | undefined> {
  const { headers, ...request } = requestOf(asked)
  const response = await fetch("/v1/chat/completions", {
    ...request,
    headers: { ...headers, "X-Dry-Run": "true" },
    signal,
  })
  if (!response.ok) return undefined
  const { cost, refused_by: refusal } = (await response.json()) as DryRun
  if (refusal !== null) return { type: "refused", code: refusal.code, message: refusal.error }
  return cost === null ? undefined : { type: "cost", mostMicro: cost.most_micro }
}
