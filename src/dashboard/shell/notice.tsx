/** A line over the page, about the account or the connection. */
import { CircleAlert } from "lucide-react"
import type { ReactNode } from "react"

export const Notice = ({ tone, children }: { readonly tone: "warn" | "bad"; readonly children: ReactNode }) => (
  <p className={`notice notice-${tone}`} role="status">
    <CircleAlert aria-hidden="true" />
    <span>{children}</span>
  </p>
)
