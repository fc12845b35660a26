/** Things to press. One `primary` a view; `danger` for what cannot be undone. */
import { Check, Copy, LoaderCircle, X } from "lucide-react"
import { type ComponentProps, type ReactNode, useEffect, useId, useRef, useState } from "react"
import { Link } from "wouter"
import { useComponentText } from "./text.ts"

type ButtonKind = "primary" | "secondary" | "quiet" | "danger"

export interface Look {
  readonly kind?: ButtonKind
  readonly size?: "small" | "medium"
  readonly icon?: ReactNode
}

export const classOf = ({ kind = "secondary", size = "medium" }: Look, extra = "") =>
  `button button-${kind} button-${size} ${extra}`.trimEnd()

type ButtonProps = Look & { readonly busy?: boolean; readonly atEnd?: boolean } & ComponentProps<"button">

/**
 * `busy`: the button was pressed and its work is not done yet. `atEnd`: it goes no further. Both keep the focus, which a disabled button
 * loses, and ignore presses.
 */
export function Button({ kind, size, icon, busy = false, atEnd = false, children, onClick, ...rest }: ButtonProps) {
  const isIdle = busy || atEnd
  return (
    <button
      type="button"
      {...rest}
      className={classOf({ ...(kind && { kind }), ...(size && { size }) }, rest.className)}
      aria-busy={busy || undefined}
      aria-disabled={isIdle || undefined}
      onClick={isIdle ? (event) => event.preventDefault() : onClick}
    >
      {busy ? <Spinner /> : icon}
      {children}
    </button>
  )
}

/** An icon without text. Its label is read by screen readers and shown as a tip. */
export function IconButton({ label, children, className, ...rest }: { readonly label: string } & ButtonProps) {
  return (
    <Button
      kind="quiet"
      {...rest}
      className={`icon-button ${className ?? ""}`.trimEnd()}
      aria-label={label}
      title={label}
    >
      {children}
    </Button>
  )
}

interface ButtonLinkProps extends Look {
  /** A page of the dashboard: `/keys`. */
  readonly to: string
  readonly children: ReactNode
}

export const ButtonLink = ({ to, children, icon, ...look }: ButtonLinkProps) => (
  <Link href={to} className={classOf(look)}>
    {icon}
    {children}
  </Link>
)

/** Something is at work. The text around it says what. */
export const Spinner = () => <LoaderCircle className="spinner" aria-hidden="true" />

const SHOWN_MS = 2_000

interface CopyButtonProps {
  readonly text: string
  /** What is copied, for the button's name: "API key". */
  readonly what: string
}

/** Copies a text, and confirms it on the button and to screen readers. */
export function CopyButton({ text: copied, what }: CopyButtonProps) {
  const text = useComponentText()
  const [outcome, setOutcome] = useState<"copied" | "failed">()
  useEffect(() => {
    if (outcome === undefined) return undefined
    const timer = setTimeout(() => setOutcome(undefined), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [outcome])
  const copy = async () => {
    try {
      // Over http from elsewhere there is no clipboard at all.
      await navigator.clipboard.writeText(copied)
      setOutcome("copied")
    } catch {
      setOutcome("failed")
    }
  }
  return (
    <>
      <IconButton
        size="small"
        label={outcome === "copied" ? text.copied : `${text.copy} ${what}`}
        onClick={() => void copy()}
      >
        {outcome === undefined ? (
          <Copy />
        ) : outcome === "copied" ? (
          <Check className="is-good" />
        ) : (
          <X className="is-bad" />
        )}
      </IconButton>
      <span className="visually-hidden" role="status">
        {outcome === "copied" ? text.copied : outcome === "failed" ? text.copyFailed : ""}
      </span>
    </>
  )
}

interface ContactLinkProps {
  /** An e-mail address, or one that begins with https://. */
  readonly contact: string
  readonly children: ReactNode
}

/** A link to the operator: their mailbox, or their contact page. */
export const ContactLink = ({ contact, children }: ContactLinkProps) =>
  contact.startsWith("https://") ? (
    <a href={contact} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  ) : (
    <a href={`mailto:${contact}`}>{children}</a>
  )

interface MenuProps {
  readonly label: string
  readonly trigger: ReactNode
  readonly children: ReactNode
  readonly className?: string
}

/**
 * A button with a small panel of links and buttons, on the browser's own popover. It closes with Escape, with a press outside,
 * and when something in it is chosen.
 */
export function Menu({ label, trigger, children, className = "" }: MenuProps) {
  const id = useId()
  const panel = useRef<HTMLDivElement>(null)
  return (
    <div className={`menu ${className}`.trimEnd()}>
      <button type="button" className="menu-trigger" popoverTarget={id} aria-label={label}>
        {trigger}
      </button>
      {/* oxlint-disable-next-line jsx-a11y/no-static-element-interactions, jsx-a11y/click-events-have-key-events -- the press is its children's */}
      <div
        id={id}
        ref={panel}
        popover="auto"
        className="menu-panel"
        onClick={(event) => {
          if (event.target instanceof Element && event.target.closest("a, button[data-closes]"))
            panel.current?.hidePopover()
        }}
      >
        {children}
      </div>
    </div>
  )
}
