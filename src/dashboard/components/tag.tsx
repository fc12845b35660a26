/** A word about something's state. The colour never says it alone. */
import type { ReactNode } from "react"

export type Tone = "neutral" | "good" | "warn" | "bad" | "accent"

export const Tag = ({ tone = "neutral", children }: { readonly tone?: Tone; readonly children: ReactNode }) => (
  <span className={`tag tag-${tone}`}>{children}</span>
)
