/** Leads to the operator: to their mailbox, or to the page that they named. */
import type { ReactNode } from "react"

interface ContactLinkProps {
  /** An e-mail address, or one that begins with https://. */
  readonly contact: string
  readonly children: ReactNode
}

export const ContactLink = ({ contact, children }: ContactLinkProps) =>
  contact.startsWith("https://") ? (
    <a href={contact} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  ) : (
    <a href={`mailto:${contact}`}>{children}</a>
  )
