/** What the operator's pages stand in: the navigation among them, and lists that are read a page at a time, narrowed by the address. */
import { useInfiniteQuery } from "@tanstack/react-query"
import { Download, Search, X } from "lucide-react"
import {
  type ComponentProps,
  type FormEvent,
  type ReactNode,
  useCallback,
  useEffect,
  useMemo,
  useRef,
  useState,
} from "react"
import { Link, useLocation, useSearchParams } from "wouter"
import { Button, IconButton } from "../../components/button.tsx"
import { TextField } from "../../components/form.tsx"
import { DownloadLink, Page } from "../../components/layout.tsx"
import { useToday } from "../../i18n/language.tsx"
import { dayCount, type Days, daysIn, isCounted, lastDays, later } from "../../i18n/figures.ts"
import { useAccount } from "../../shell/session.tsx"
import { useOperatorText } from "./act-dialog.tsx"

const PLACES = [
  ["/operator", "overview"],
  ["/operator/profit", "profit"],
  ["/operator/accounts", "accounts"],
  ["/operator/top-ups", "topUps"],
  ["/operator/refunds", "refunds"],
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
  /** Its tables take more of a wide screen, unless it is said. */
  readonly wide?: boolean
  readonly children: ReactNode
}

/** The frame of the operator's pages: the navigation among them, above the page itself. */
export const OperatorPage = (props: OperatorPageProps) => (
  <>
    <Sections />
    <RoleNote />
    <Page wide {...props} />
  </>
)

const RANKS = { support: 0, finance: 1, owner: 2 } as const
export type OperatorRole = keyof typeof RANKS

/** Whether whoever is signed in may do what is for operators of this role. The server judges by itself. */
export function useMay(needed: OperatorRole): boolean {
  const { operator_role: role } = useAccount()
  return role !== null && RANKS[role] >= RANKS[needed]
}

/** What may only be pressed by operators of a role, or above it. For others it is disabled, and the page's note says why. */
export function RoleButton({ role, ...button }: { readonly role: OperatorRole } & ComponentProps<typeof Button>) {
  const text = useOperatorText()
  const may = useMay(role)
  return may ? <Button {...button} /> : <Button {...button} disabled title={text.needsRole(text.roles[role])} />
}

/** What this operator may not do, where buttons are disabled for it. */
function RoleNote() {
  const text = useOperatorText()
  const { operator_role: role } = useAccount()
  if (role === null || role === "owner") return null
  return <p className="operator-role">{text.roleNote[role]}</p>
}

function Sections() {
  const text = useOperatorText()
  const [path] = useLocation()
  const list = useRef<HTMLUListElement>(null)
  // On a phone the row is longer than the screen. The current page is scrolled into view.
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

interface SearchFormProps {
  readonly label: string
  readonly hint?: string
  readonly placeholder?: string
  readonly value: string
  readonly onSearch: (value: string) => void
}

/** A search that takes effect when it is sent, and is then part of the address. Resets when the address changes. */
export const SearchForm = (props: SearchFormProps) => <Form key={props.value} {...props} />

function Form({ label, hint, placeholder, value, onSearch }: SearchFormProps) {
  const text = useOperatorText()
  const [written, setWritten] = useState(value)
  const send = (event: FormEvent) => {
    event.preventDefault()
    onSearch(written.trim())
  }
  return (
    <search>
      <form className="operator-search" onSubmit={send}>
        <TextField
          label={label}
          hint={hint}
          placeholder={placeholder}
          maxLength={254}
          autoComplete="off"
          spellCheck={false}
          before={<Search aria-hidden="true" />}
          after={
            value === "" ? undefined : (
              <IconButton size="small" label={text.clear} onClick={() => onSearch("")}>
                <X />
              </IconButton>
            )
          }
          value={written}
          onChange={({ target }) => setWritten(target.value)}
        />
        <Button type="submit">{text.search}</Button>
      </form>
    </search>
  )
}

interface CsvLinkProps {
  /** Of the list that the file is of. */
  readonly path: string
  /** The list's filters. */
  readonly query?: Readonly<Record<string, string>>
  readonly size?: "small"
}

/** A list as a file for a spreadsheet. */
export const CsvLink = ({ path, query = {}, size }: CsvLinkProps) => (
  <DownloadLink href={`${path}/export.csv?${new URLSearchParams(query)}`} icon={<Download />} {...(size && { size })}>
    CSV
  </DownloadLink>
)

interface ListPage<Row> {
  readonly data: readonly Row[]
  readonly next_cursor: string | null
}

/** A query string with a cursor where there is one. */
export const at = (cursor: string | undefined) => (cursor === undefined ? {} : { cursor })

/** A list as the props of a `DataTable`. Its query key begins with `operator`. It is read again every so many milliseconds, where that is said. */
export function useList<Row, Page extends ListPage<Row>>(
  key: readonly unknown[],
  ask: (cursor: string | undefined) => Promise<Page & ListPage<Row>>,
  everyMs?: number,
) {
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: ["operator", ...key],
    queryFn: ({ pageParam }) => ask(pageParam),
    ...(everyMs !== undefined && { refetchInterval: everyMs }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: ListPage<Row>) => last.next_cursor ?? undefined,
  })
  return {
    first: data?.pages[0],
    table: {
      rows: data?.pages.flatMap((page) => page.data),
      error,
      retry: refetch,
      more: hasNextPage ? { load: fetchNextPage, busy: isFetchingNextPage } : undefined,
    },
  }
}

/** One parameter of the page's address, empty when it is not there. A link shows the same list to everyone. */
export function useParameter(name: string): readonly [string, (value: string) => void] {
  const [query, setQuery] = useSearchParams()
  const set = useCallback(
    (value: string) =>
      setQuery(
        (now) => {
          const next = new URLSearchParams(now)
          if (value === "") next.delete(name)
          else next.set(name, value)
          return next
        },
        { replace: true },
      ),
    [setQuery, name],
  )
  return [query.get(name) ?? "", set]
}

const DAYS = new Set(["days", "from", "to"])
/** Of the house's figures, as the server has it. */
export const MOST_DAYS = 92

/** The days in the page's address. A range up to today is written as a number of days, so that it moves with the calendar. */
export function useDays(longest = Number.POSITIVE_INFINITY): {
  readonly days: Days
  readonly today: string
  readonly choose: (days: Days) => void
} {
  const [query, setQuery] = useSearchParams()
  const today = useToday()
  const days = useMemo(() => daysIn(query, today), [query, today])
  const choose = useCallback(
    (chosen: Days) => {
      setQuery(
        (now) => {
          const others = [...now].filter(([name]) => !DAYS.has(name))
          const reached = inReach(chosen, days, longest)
          const { from, to } = reached
          const written = isCounted(reached, today) ? { days: String(dayCount(reached)) } : { from, to }
          return new URLSearchParams([...others, ...Object.entries(written)])
        },
        { replace: true },
      )
    },
    [setQuery, today, days, longest],
  )
  return { days, today, choose }
}

/** Of more days than that the end that was not chosen comes along. */
function inReach(chosen: Days, before: Days, longest: number): Days {
  const { from, to } = chosen
  if (dayCount(chosen) <= longest) return chosen
  return from === before.from ? lastDays(to, longest) : { from, to: later(from, longest - 1) }
}

/** What the profit page divides by. */
export const profitGroups = ["day", "model", "member", "account"] as const
export type ProfitGroup = (typeof profitGroups)[number]

/** How the sums are divided, as the page's address says. */
export function useDivision() {
  const [query, setQuery] = useSearchParams()
  const known = (name: string) => profitGroups.find((one) => one === query.get(name))
  const [groupBy = "day", split] = ["by", "and"].map(known)
  const splitBy = split === groupBy ? undefined : split
  const choose = (by: ProfitGroup, and: ProfitGroup | undefined) =>
    setQuery(
      (now) => {
        const next = new URLSearchParams(now)
        next.set("by", by)
        if (and === undefined) next.delete("and")
        else next.set("and", and)
        return next
      },
      { replace: true },
    )
  return { groupBy, splitBy, choose }
}
