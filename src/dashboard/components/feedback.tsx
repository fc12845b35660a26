/** What is shown when something is loading, missing or wrong, and the short notices when something is done. */
import { CircleAlert, CircleCheck, X } from "lucide-react"
import { createContext, type ReactNode, useCallback, useContext, useEffect, useMemo, useRef, useState } from "react"
import { ApiFailure, LIMIT_S } from "../api/client.ts"
import { useFormat, useLanguage } from "../i18n/language.tsx"
import { Button, CopyButton, IconButton, Spinner } from "./button.tsx"
import { indonesianFor, useComponentText } from "./text.ts"

/** A placeholder while something is loading. `lines`: about how many lines of text it will have. */
export function Skeleton({ lines = 1 }: { readonly lines?: number }) {
  const text = useComponentText()
  return (
    <div className="skeleton" role="status" aria-label={text.loading}>
      {Array.from({ length: lines }, (_, line) => (
        <span key={line} className="skeleton-line" />
      ))}
    </div>
  )
}

/** The code of a page could not be had: the network or the gateway is away, or a newer version has other files. */
export class NotLoaded extends Error {
  override readonly name = "NotLoaded"
}

/** Code that is fetched when it is first wanted, and then kept; where it could not be had, it is asked for again. */
export class Code<Content> {
  /** Undefined until it is there. */
  content: Content | undefined
  readonly #load: () => Promise<Content>
  #coming: Promise<void> | undefined

  constructor(load: () => Promise<Content>) {
    this.#load = load
  }

  /** Throws `NotLoaded`. */
  fetch(): Promise<void> {
    return (this.#coming ??= this.#load().then(
      (content) => void (this.content = content),
      (cause: unknown) => {
        this.#coming = undefined
        throw new NotLoaded("code of the page", { cause })
      },
    ))
  }

  /** So that it is there when it is wanted. */
  fetchAhead(): void {
    // Whoever wants it hears of the failure.
    this.fetch().catch(() => undefined)
  }
}

/**
 * The code, or undefined while it is on its way; throws where it could not be had. `Suspense` would keep what is shown meanwhile on the page
 * for 300 ms however soon the code is there (`FALLBACK_THROTTLE_MS` of React), and only then would the page ask for its data.
 */
export function useCode<Content>(code: Code<Content>): Content | undefined {
  const [, setThere] = useState(code.content !== undefined)
  const [failure, setFailure] = useState<unknown>()
  useEffect(() => {
    let isShown = true
    code.fetch().then(
      () => isShown && setThere(true),
      (error: unknown) => isShown && setFailure(error),
    )
    return () => {
      isShown = false
    }
  }, [code])
  if (failure !== undefined) throw failure
  return code.content
}

const chart = new Code(async () => (await import("./chart.tsx")).default)

/** `Chart`, which is large and so not among what each page loads. */
export const useChart = () => useCode(chart)

/** On a page that learns only from its data whether it has a chart. */
export const useChartAhead = () => useEffect(() => chart.fetchAhead(), [])

interface StaleProps {
  /** What the content is of, in words, while what was asked for is loading; undefined when the content is that. */
  readonly of: string | undefined
  readonly className?: string
  readonly children: ReactNode
}

/** Content that may still be the answer to the question before. Then it is dimmed, and says so. */
export function Stale({ of, className = "", children }: StaleProps) {
  const text = useComponentText()
  return (
    <div className={`stale ${className}`.trimEnd()} aria-busy={of !== undefined || undefined}>
      {of !== undefined && (
        <p className="stale-note" role="status">
          <Spinner />
          {text.stillOf(of)}
        </p>
      )}
      <div className="stale-content">{children}</div>
    </div>
  )
}

/** Whether something has been going on for so long. */
export function useLate(goesOn: boolean, afterMs: number): boolean {
  const [late, setLate] = useState(false)
  useEffect(() => {
    if (!goesOn) return setLate(false)
    const timer = setTimeout(() => setLate(true), afterMs)
    return () => clearTimeout(timer)
  }, [goesOn, afterMs])
  return late
}

interface EmptyStateProps {
  readonly icon?: ReactNode
  readonly title: string
  /** What to do about it. */
  readonly children?: ReactNode
  readonly action?: ReactNode
  /** It stands in place of a whole page, and so has the page's only h1, and gives the browser's tab its title. */
  readonly isPage?: boolean
}

/** Shown where there is nothing yet. */
export const EmptyState = ({ icon, title, children, action, isPage = false }: EmptyStateProps) => (
  <div className="empty-state">
    {icon !== undefined && <div className="empty-state-icon">{icon}</div>}
    {isPage && <title>{`${title} · Loket`}</title>}
    {isPage ? <h1 className="empty-state-title">{title}</h1> : <p className="empty-state-title">{title}</p>}
    {children !== undefined && <p className="empty-state-text">{children}</p>}
    {action}
  </div>
)

/** A press is answered where its form is read from, its head, which may be out of sight by then. */
export const intoSight = (message: HTMLElement | null): void => message?.scrollIntoView({ block: "nearest" })

/** An error, with the code and request id that support needs. Without `retry` it is of what was pressed. */
export function ErrorState({ error, retry }: { readonly error: unknown; readonly retry?: () => unknown }) {
  const text = useComponentText()
  return (
    <div className="error-state" role="alert" ref={retry === undefined ? intoSight : null}>
      <CircleAlert className="error-state-icon" aria-hidden="true" />
      <div className="error-state-body">
        <ErrorWords error={error} />
        {retry !== undefined && (
          <Button size="small" onClick={() => void retry()}>
            {text.tryAgain}
          </Button>
        )}
      </div>
    </div>
  )
}

function ErrorWords({ error }: { readonly error: unknown }) {
  const text = useComponentText()
  const format = useFormat()
  const { language } = useLanguage()
  if (!(error instanceof ApiFailure)) return <p className="error-state-message">{text.unexpected}</p>
  if (error.body === undefined) {
    // Something before the gateway has answered in its place.
    const isAway = error.status !== 0
    if (error.isLate)
      return (
        <>
          <p className="error-state-message">{text.late(format.number(LIMIT_S))}</p>
          <p className="error-state-hint">{text.lateHint}</p>
        </>
      )
    return (
      <>
        <p className="error-state-message">{isAway ? text.unavailable : text.unreachable}</p>
        <p className="error-state-hint">{isAway ? text.unavailableHint(String(error.status)) : text.unreachableHint}</p>
        {error.retryAfterS !== undefined && (
          <p className="error-state-hint">{text.waitSeconds(format.number(error.retryAfterS))}</p>
        )}
      </>
    )
  }
  const { error: message, code, request_id: requestId, hint } = error.body
  const translated = language === "id" ? indonesianFor(code) : undefined
  return (
    <>
      <p className="error-state-message" lang={translated === undefined ? "en" : undefined}>
        {translated ?? message}
      </p>
      {translated === undefined ? (
        hint !== undefined && (
          <p className="error-state-hint" lang="en">
            {hint}
          </p>
        )
      ) : (
        <details className="error-state-hint">
          <summary>{text.original}</summary>
          <p lang="en">
            {message} {hint}
          </p>
        </details>
      )}
      {error.retryAfterS !== undefined && (
        <p className="error-state-hint">{text.waitSeconds(format.number(error.retryAfterS))}</p>
      )}
      <dl className="error-state-facts">
        <dt>{text.code}</dt>
        <dd>
          <code>{code}</code>
        </dd>
        <dt>{text.requestId}</dt>
        <dd>
          <code>{requestId}</code>
          <CopyButton text={requestId} what={text.requestId} />
        </dd>
      </dl>
    </>
  )
}

/** A line over the page, about the account or the connection. */
export const Notice = ({ tone, children }: { readonly tone: "warn" | "bad"; readonly children: ReactNode }) => (
  <p className={`notice notice-${tone}`} role="status">
    <CircleAlert aria-hidden="true" />
    <span>{children}</span>
  </p>
)

interface NoticeButtonProps {
  readonly change: { readonly isPending: boolean; readonly isError: boolean; readonly mutate: () => void }
  readonly children: ReactNode
}

/** Does something about what a notice says, and says in it when that failed. */
export function NoticeButton({ change, children }: NoticeButtonProps) {
  const text = useComponentText()
  return (
    <>
      {change.isError && `${text.notDone} `}
      <button type="button" className="notice-button" disabled={change.isPending} onClick={() => change.mutate()}>
        {children}
      </button>
    </>
  )
}

interface Toast {
  readonly id: number
  readonly message: string
  readonly tone: "good" | "bad"
}

interface Toasts {
  readonly done: (message: string) => void
  readonly failed: (message: string) => void
}

const SHOWN_MS = 6_000

const Context = createContext<Toasts>({ done() {}, failed() {} })

/** Short notices that disappear by themselves. Errors are not shown here but where they happened. */
export const useToasts = (): Toasts => useContext(Context)

export function ToastProvider({ children }: { readonly children: ReactNode }) {
  const text = useComponentText()
  const [notices, setNotices] = useState<readonly Toast[]>([])
  const lastId = useRef(0)
  const dismiss = useCallback((id: number) => setNotices((shown) => shown.filter((notice) => notice.id !== id)), [])
  const toasts = useMemo<Toasts>(() => {
    const show = (message: string, tone: Toast["tone"]) => {
      const id = ++lastId.current
      setNotices((shown) => [...shown, { id, message, tone }])
      setTimeout(() => dismiss(id), SHOWN_MS)
    }
    return { done: (message) => show(message, "good"), failed: (message) => show(message, "bad") }
  }, [dismiss])
  return (
    <Context value={toasts}>
      {children}
      <section className="toasts" aria-label={text.notifications} aria-live="polite">
        {notices.map(({ id, message, tone }) => (
          <div key={id} className={`toast toast-${tone}`}>
            {tone === "good" ? <CircleCheck aria-hidden="true" /> : <CircleAlert aria-hidden="true" />}
            <p>{message}</p>
            <IconButton size="small" label={text.dismiss} onClick={() => dismiss(id)}>
              <X />
            </IconButton>
          </div>
        ))}
      </section>
    </Context>
  )
}
