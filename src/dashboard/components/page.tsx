/** The head of every page: its one h1, what it is for, and what can be done on it. Names the browser's tab too. */
import type { ReactNode } from "react"

interface PageProps {
  readonly title: string
  readonly intro?: ReactNode
  readonly actions?: ReactNode
  readonly children: ReactNode
}

export const Page = ({ title, intro, actions, children }: PageProps) => (
  <>
    <title>{`${title} · Loket`}</title>
    <header className="page-head">
      <div>
        <h1>{title}</h1>
        {intro !== undefined && <p className="page-intro">{intro}</p>}
      </div>
      {actions !== undefined && <div className="page-actions">{actions}</div>}
    </header>
    <div className="page-body">{children}</div>
  </>
)
