/** Things to press. One `primary` a view; `danger` for what cannot be undone. */
import type { ButtonHTMLAttributes, ReactNode } from "react"
import { Link } from "wouter"
import { Spinner } from "./spinner.tsx"

export type ButtonKind = "primary" | "secondary" | "quiet" | "danger"

interface Look {
  readonly kind?: ButtonKind
  readonly size?: "small" | "medium"
  readonly icon?: ReactNode
}

const classOf = ({ kind = "secondary", size = "medium" }: Look, extra = "") =>
  `button button-${kind} button-${size} ${extra}`.trimEnd()

export type ButtonProps = Look & { readonly busy?: boolean } & ButtonHTMLAttributes<HTMLButtonElement>

/** `busy`: it has been pressed and is at work; it keeps its focus and takes no second press. */
export function Button({ kind, size, icon, busy = false, children, onClick, className, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      className={classOf({ ...(kind && { kind }), ...(size && { size }) }, className)}
      aria-busy={busy || undefined}
      aria-disabled={busy || undefined}
      onClick={busy ? (event) => event.preventDefault() : onClick}
    >
      {busy ? <Spinner /> : icon}
      {children}
    </button>
  )
}

/** An icon alone, with its name for those who cannot see it and as a tip for those who can. */
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

interface DownloadLinkProps extends Look {
  /** Of the server itself. */
  readonly href: string
  readonly children: ReactNode
}

/** A file that the server makes as it is sent. */
export const DownloadLink = ({ href, children, icon, ...look }: DownloadLinkProps) => (
  <a href={href} className={classOf(look)} download>
    {icon}
    {children}
  </a>
)

interface ButtonLinkProps extends Look {
  /** Inside the dashboard: `/keys`. */
  readonly to: string
  readonly children: ReactNode
}

export const ButtonLink = ({ to, children, icon, ...look }: ButtonLinkProps) => (
  <Link href={to} className={classOf(look)}>
    {icon}
    {children}
  </Link>
)
