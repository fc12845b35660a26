/** Cards group what belongs together; a Stat is one number with its name. */
import { type ReactNode, useId } from "react"

interface CardProps {
  readonly title?: string
  readonly action?: ReactNode
  /** Without room at the edges, for tables. */
  readonly flush?: boolean
  readonly children: ReactNode
}

export function Card({ title, action, flush = false, children }: CardProps) {
  const id = useId()
  return (
    <section className={flush ? "card card-flush" : "card"} aria-labelledby={title === undefined ? undefined : id}>
      {title !== undefined && (
        <header className="card-head">
          <h2 id={id}>{title}</h2>
          {action}
        </header>
      )}
      {children}
    </section>
  )
}

interface StatProps {
  readonly label: string
  readonly children: ReactNode
  readonly note?: ReactNode
}

export const Stat = ({ label, children, note }: StatProps) => (
  <div className="stat">
    <dt>{label}</dt>
    <dd className="stat-value">{children}</dd>
    {note !== undefined && <dd className="stat-note">{note}</dd>}
  </div>
)

export const Stats = ({ children }: { readonly children: ReactNode }) => <dl className="stats card">{children}</dl>
