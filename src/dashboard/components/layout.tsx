/** What a page is laid out with: its head, cards, tabs, single figures, facts, blocks of code, and links to files. */
import { Tabs as BaseTabs } from "@base-ui/react/tabs"
import { type ReactNode, useId } from "react"
import { ApiFailure, fileAt, isInvalid } from "../api/client.ts"
import { save } from "../api/browser.ts"
import { useChange } from "../api/queries.ts"
import { useFormat, useLanguage } from "../i18n/language.tsx"
import { classOf, CopyButton, type Look, Spinner } from "./button.tsx"
import { ErrorState, useToasts } from "./feedback.tsx"
import { Refusal } from "./form.tsx"
import { indonesianFor, useComponentText } from "./text.ts"

interface PageProps {
  readonly title: string
  readonly intro?: ReactNode
  readonly actions?: ReactNode
  /** Its tables take more of a wide screen. */
  readonly wide?: boolean
  readonly children: ReactNode
}

/** A page with its head: the only h1, the purpose, and the main actions. It also sets the title of the browser's tab. */
export const Page = ({ title, intro, actions, wide = false, children }: PageProps) => (
  <>
    <title>{`${title} · Loket`}</title>
    <header className="page-head">
      <div>
        <h1>{title}</h1>
        {intro !== undefined && <p className="page-intro">{intro}</p>}
      </div>
      {actions !== undefined && <div className="page-actions">{actions}</div>}
    </header>
    <div className={wide ? "page-body page-wide" : "page-body"}>{children}</div>
  </>
)

interface CardProps {
  readonly title?: string
  readonly action?: ReactNode
  /** No padding, for tables. */
  readonly flush?: boolean
  readonly children: ReactNode
}

/** A card groups what belongs together. */
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

interface FactsProps {
  readonly title?: string
  readonly facts: readonly { readonly name: string; readonly value: ReactNode }[]
}

/** Names and values, one pair below the other. */
export const Facts = ({ title, facts }: FactsProps) => (
  <section className="facts">
    {title !== undefined && <h3>{title}</h3>}
    <dl>
      {facts.map(({ name, value }) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  </section>
)

interface CodeBlockProps {
  readonly code: string
  /** Where it belongs: "Terminal", "~/.codex/config.toml". */
  readonly title: string
}

/** Text for a terminal or a file, to be copied as a whole. It can be scrolled with the keyboard. */
export const CodeBlock = ({ code, title }: CodeBlockProps) => (
  <figure className="code-block">
    <figcaption>
      <span>{title}</span>
      <CopyButton text={code} what={title} />
    </figcaption>
    {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls must be reachable by keyboard */}
    <pre tabIndex={0} aria-label={title}>
      <code>{code}</code>
    </pre>
  </figure>
)

interface Tab {
  readonly id: string
  readonly label: string
  readonly content: ReactNode
}

interface TabsProps {
  readonly label: string
  readonly tabs: readonly Tab[]
  /** The id of the one to begin with. */
  readonly first?: string | undefined
  /** For many: below each other at the side, where there is room. */
  readonly upright?: boolean
}

/** Several views of one thing, one visible at a time. The arrow keys move between them. */
export const Tabs = ({ label, tabs, first, upright = false }: TabsProps) => (
  <BaseTabs.Root
    defaultValue={(tabs.find(({ id }) => id === first) ?? tabs[0])?.id ?? ""}
    orientation={upright ? "vertical" : "horizontal"}
    className={upright ? "tabs tabs-upright" : "tabs"}
  >
    <BaseTabs.List className="tabs-list" aria-label={label}>
      {tabs.map(({ id, label: name }) => (
        <BaseTabs.Tab key={id} value={id} className="tabs-tab">
          {name}
        </BaseTabs.Tab>
      ))}
    </BaseTabs.List>
    {tabs.map(({ id, content }) => (
      <BaseTabs.Panel key={id} value={id} className="tabs-panel">
        {content}
      </BaseTabs.Panel>
    ))}
  </BaseTabs.Root>
)

interface DownloadLinkProps extends Look {
  /** A path of this server. */
  readonly href: string
  readonly children: ReactNode
}

/**
 * A link to a file. The page fetches it by itself: a browser's download would be of the account that another tab has chosen
 * meanwhile, and would not say why there is none. With a key held, as for a new tab, it is the browser's.
 */
export function DownloadLink({ href, children, icon, ...look }: DownloadLinkProps) {
  const text = useComponentText()
  const toasts = useToasts()
  const wordsOf = useFailureWords()
  const { language } = useLanguage()
  // Numbers in a CSV file are written as on the page.
  const address =
    language === "id" && /\.csv(?:\?|$)/.test(href) ? `${href}${href.includes("?") ? "&" : "?"}lang=id` : href
  const { mutate, isPending } = useChange({
    mutationFn: fileAt,
    onSuccess: ({ content, name }) => save(content, name),
    onError: (error) => toasts.failed(text.noFile(wordsOf(error))),
  })
  return (
    <a
      href={address}
      className={classOf(look)}
      download
      aria-busy={isPending || undefined}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return
        event.preventDefault()
        mutate(address)
      }}
    >
      {isPending ? <Spinner /> : icon}
      {children}
    </a>
  )
}

interface FormErrorProps {
  readonly error: Error
  /** Of what is not allowed or not possible in this form: the server's own words are English. */
  readonly refused?: ((message: string) => string) | undefined
}

/** What the person can correct is told in words alone, without a request id. */
export const FormError = ({ error, refused }: FormErrorProps) =>
  refused !== undefined && isInvalid(error) ? <Refusal>{refused(error.message)}</Refusal> : <ErrorState error={error} />

/** A failure in one line. */
function useFailureWords(): (error: Error) => string {
  const text = useComponentText()
  const format = useFormat()
  const { language } = useLanguage()
  return (error) => {
    if (!(error instanceof ApiFailure)) return text.unexpected
    const { body, status, retryAfterS: waitS } = error
    const translated = language === "id" && body !== undefined ? indonesianFor(body.code) : undefined
    const words = translated ?? body?.error ?? (status === 0 ? text.unreachable : text.unavailable)
    return waitS === undefined ? words : `${words} ${text.waitSeconds(format.number(waitS))}`
  }
}
