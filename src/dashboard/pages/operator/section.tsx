/** The frame of the operator's pages: where one can go among them, above the page itself. */
import { type ReactNode, useEffect, useRef } from "react"
import { Link, useLocation } from "wouter"
import { Page } from "../../components/page.tsx"
import { useOperatorText } from "./text.ts"

const PLACES = [
  ["/operator", "overview"],
  ["/operator/accounts", "accounts"],
  ["/operator/top-ups", "topUps"],
  ["/operator/payment-problems", "problems"],
  ["/operator/models", "models"],
  ["/operator/backends", "backends"],
  ["/operator/billing", "billing"],
  ["/operator/audit", "audit"],
] as const

interface OperatorPageProps {
  readonly title: string
  readonly intro?: ReactNode
  readonly actions?: ReactNode
  readonly children: ReactNode
}

export const OperatorPage = (props: OperatorPageProps) => (
  <>
    <Sections />
    <Page {...props} />
  </>
)

function Sections() {
  const text = useOperatorText()
  const [path] = useLocation()
  const list = useRef<HTMLUListElement>(null)
  // On a phone the row is longer than the screen: what one is on must be in sight.
  useEffect(() => {
    const current = list.current?.querySelector<HTMLElement>("[aria-current]")
    if (current) list.current?.scrollTo({ left: current.offsetLeft - list.current.clientWidth / 3 })
  }, [path])
  return (
    <nav className="operator-sections" aria-label={text.navigation}>
      <ul ref={list}>
        {PLACES.map(([place, name]) => (
          <li key={place}>
            <Link href={place} aria-current={isAt(path, place) ? "page" : undefined}>
              {text.sections[name]}
            </Link>
          </li>
        ))}
      </ul>
    </nav>
  )
}

const isAt = (path: string, place: string): boolean =>
  path === place || (place !== "/operator" && path.startsWith(`${place}/`))
