/** What stands where there is nothing yet. */
import type { ReactNode } from "react"

interface EmptyStateProps {
  readonly icon?: ReactNode
  readonly title: string
  /** What to do about it. */
  readonly children?: ReactNode
  readonly action?: ReactNode
}

export const EmptyState = ({ icon, title, children, action }: EmptyStateProps) => (
  <div className="empty-state">
    {icon !== undefined && <div className="empty-state-icon">{icon}</div>}
    <p className="empty-state-title">{title}</p>
    {children !== undefined && <p className="empty-state-text">{children}</p>}
    {action}
  </div>
)
