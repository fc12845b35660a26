/** The keys that work as a table: found by a word, sorted by a column, each opened in its place. Both are in the page's address. */
import { Search as SearchIcon } from "lucide-react"
import { useMemo, useState } from "react"
import { useSearchParams } from "wouter"
import type { ApiKey } from "../../api/queries.ts"
import { type Column, DataTable, type Sorting } from "../../components/data-table.tsx"
import { SelectField, TextField } from "../../components/form.tsx"
import { Card } from "../../components/layout.tsx"
import { Ago, Money, Sparkline, UsageBar } from "../../components/values.tsx"
import { useFormat } from "../../i18n/language.tsx"
import { ResumeButton } from "./breaker.tsx"
import { Expiry, hintOf, type KeyAction, KeyDetail, KeyState } from "./key-detail.tsx"
import { useKeysText } from "./text.ts"

const sorts = ["name", "today", "month", "used", "budget", "expires"] as const
type Sort = (typeof sorts)[number]

/** A key without a value comes last, whichever way it is sorted. */
const valueOf: Readonly<Record<Sort, (key: ApiKey) => number | string | undefined>> = {
  name: ({ name }) => name,
  today: ({ spending }) => spending?.today_micro,
  month: ({ spending }) => spending?.month_micro,
  used: ({ last_used_at: at }) => (at === null ? undefined : Date.parse(at)),
  budget: ({ usage: { budget } }) =>
    budget === null ? undefined : budget.used_micro / Math.max(1, budget.limit_micro),
  expires: ({ expires_at: at }) => (at === null ? undefined : Date.parse(at)),
}

/** What comes first when a column is chosen: the most and the latest, but the first name and what ends soonest. */
const isDownFirst = (sort: Sort): boolean => sort !== "name" && sort !== "expires"

/** Rows that are drawn at once; the rest when it is asked for. */
const DRAWN = 200

interface KeyTableProps {
  readonly keys: readonly ApiKey[]
  readonly onAct: (key: ApiKey, action: KeyAction) => void
}

export function KeyTable({ keys, onAct }: KeyTableProps) {
  const text = useKeysText()
  const columns = useColumns()
  const { word, sorting, find, sort } = useAddress()
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set())
  const [drawn, setDrawn] = useState(DRAWN)
  const rows = useMemo(() => sorted(found(keys, word), sorting), [keys, word, sorting])
  const toggle = ({ id }: ApiKey) => {
    const others = new Set(opened)
    if (!others.delete(id)) others.add(id)
    setOpened(others)
  }
  return (
    <Card flush>
      <div className="key-table">
        <div className="key-tools">
          <TextField
            label={text.find}
            type="search"
            value={word}
            placeholder={text.findHint}
            autoComplete="off"
            spellCheck={false}
            before={<SearchIcon aria-hidden="true" />}
            onChange={({ target }) => find(target.value)}
          />
          <SelectField
            label={text.sort}
            value={sorting === undefined ? "" : `${sorting.by} ${sorting.down}`}
            options={[
              { value: "", label: text.newest },
              ...sorts.map((by) => ({ value: `${by} ${isDownFirst(by)}`, label: text.sorts[by] })),
              ...(sorting !== undefined && sorting.down !== isDownFirst(sorting.by)
                ? [{ value: `${sorting.by} ${sorting.down}`, label: text.reversed(text.columns[sorting.by]) }]
                : []),
            ]}
            onChange={({ target }) => {
              const [by, down] = target.value.split(" ")
              const known = sorts.find((one) => one === by)
              sort(known && { by: known, down: down === "true" })
            }}
          />
          <Found all={keys} shown={rows} sorting={sorting} />
        </div>
        <DataTable
          caption={text.list}
          columns={columns}
          rows={rows.slice(0, drawn)}
          rowKey={({ id }) => id}
          {...(sorting && { sorting })}
          onSort={({ by, down }) => {
            const known = sorts.find((one) => one === by)
            if (known !== undefined) sort({ by: known, down: sorting?.by === by ? down : isDownFirst(known) })
          }}
          onOpen={toggle}
          opened={(key) =>
            opened.has(key.id) ? <KeyDetail apiKey={key} onAct={(action) => onAct(key, action)} /> : undefined
          }
          empty={text.noneFound(word)}
          more={rows.length > drawn ? { load: () => setDrawn(drawn + DRAWN), busy: false } : undefined}
        />
      </div>
    </Card>
  )
}

interface KeySorting extends Sorting {
  readonly by: Sort
}

function useAddress() {
  const [query, setQuery] = useSearchParams()
  const [word, by, way] = [query.get("q") ?? "", query.get("sort"), query.get("way")]
  const known = sorts.find((one) => one === by)
  const down = way === null ? known !== undefined && isDownFirst(known) : way === "down"
  const sorting = useMemo<KeySorting | undefined>(() => known && { by: known, down }, [known, down])
  const change = (changes: Readonly<Record<string, string | undefined>>) =>
    setQuery(
      (now) => {
        const written = new URLSearchParams(now)
        for (const [name, value] of Object.entries(changes)) {
          if (value) written.set(name, value)
          else written.delete(name)
        }
        return written
      },
      { replace: true },
    )
  return {
    word,
    sorting,
    find: (q: string) => change({ q }),
    sort: (to: KeySorting | undefined) =>
      change({ sort: to?.by, way: to && to.down !== isDownFirst(to.by) ? (to.down ? "down" : "up") : undefined }),
  }
}

/** By its name, what of it is shown, and its models. */
function found(keys: readonly ApiKey[], word: string): readonly ApiKey[] {
  const words = word.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) return keys
  return keys.filter((key) => {
    const written = [key.name, hintOf(key), ...(key.models ?? [])].join(" ").toLowerCase()
    return words.every((each) => written.includes(each))
  })
}

/** Keys that are alike stay in the order in which they came: the newest first. */
function sorted(keys: readonly ApiKey[], sorting: KeySorting | undefined): readonly ApiKey[] {
  if (sorting === undefined) return keys
  const [value, way] = [valueOf[sorting.by], sorting.down ? -1 : 1]
  return keys.toSorted((left, right) => {
    const [a, b] = [value(left), value(right)]
    if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined)
    return way * (typeof a === "string" ? a.localeCompare(String(b), undefined, { numeric: true }) : a - Number(b))
  })
}

/** How many there are, what they have spent, and in which order they stand; a screen reader is told when it changes. */
function Found({ all, shown, sorting }: FoundProps) {
  const text = useKeysText()
  const format = useFormat()
  const sumOf = (part: "today_micro" | "month_micro") =>
    format.rupiah(
      shown.reduce((sum, { spending }) => sum + BigInt(spending?.[part] ?? 0), 0n),
      "whole",
    )
  const order = sorting && text.sortedBy(text.columns[sorting.by], sorting.down)
  return (
    <p className="key-found">
      <span role="status">
        {shown.length === all.length
          ? text.count(format.number(all.length), all.length === 1)
          : text.countOf(format.number(shown.length), format.number(all.length))}
        {order !== undefined && <span className="visually-hidden">. {order}</span>}
      </span>
      <span>
        {text.sumToday} <strong>{sumOf("today_micro")}</strong>
      </span>
      <span>
        {text.sumMonth} <strong>{sumOf("month_micro")}</strong>
      </span>
    </p>
  )
}

interface FoundProps {
  readonly all: readonly ApiKey[]
  readonly shown: readonly ApiKey[]
  readonly sorting: KeySorting | undefined
}

function useColumns(): readonly Column<ApiKey>[] {
  const text = useKeysText()
  const format = useFormat()
  return useMemo(() => {
    const money = (micro: number | undefined) =>
      micro === undefined ? (
        "–"
      ) : micro === 0 ? (
        <span className="key-quiet">{format.rupiah(0)}</span>
      ) : (
        <Money micro={micro} form={micro >= LARGE_MICRO ? "whole" : "column"} />
      )
    return [
      {
        id: "name",
        head: text.columns.name,
        names: true,
        sortable: true,
        cell: ({ name }) => <span className="key-name">{name}</span>,
        below: (key) => (
          <span className="key-under">
            <code aria-label={text.secretOf(key.name)}>{hintOf(key)}</code>
            <KeyState apiKey={key} />
            <ResumeButton apiKey={key} />
          </span>
        ),
      },
      {
        id: "today",
        head: text.columns.today,
        numeric: true,
        sortable: true,
        cell: ({ spending }) => money(spending?.today_micro),
      },
      {
        id: "month",
        head: text.columns.month,
        numeric: true,
        sortable: true,
        cell: ({ spending }) => money(spending?.month_micro),
      },
      {
        id: "days",
        head: text.columns.days,
        cell: ({ spending }) => {
          const days = spending?.days_micro ?? []
          const sum = days.reduce((total, micro) => total + BigInt(micro), 0n)
          return (
            <Sparkline
              values={days}
              label={text.spark(format.rupiah(sum, "whole"), format.rupiah(Math.max(0, ...days), "whole"))}
            />
          )
        },
      },
      {
        id: "used",
        head: text.columns.used,
        sortable: true,
        cell: ({ last_used_at: at }) =>
          at === null ? (
            <span className="key-quiet">{text.neverUsed}</span>
          ) : (
            <time dateTime={at} title={format.dateTime(at)}>
              <Ago time={at} />
            </time>
          ),
      },
      {
        id: "budget",
        head: text.columns.budget,
        sortable: true,
        cell: ({ name, usage: { budget }, spending_period: period }) =>
          budget === null ? (
            <span className="key-quiet key-nothing">{text.noLimit}</span>
          ) : (
            <UsageBar
              label={`${text.budgets[period ?? "total"]}, ${name}`}
              labelled={false}
              used={budget.used_micro}
              limit={budget.limit_micro}
              format={(micro) => format.rupiah(micro, "whole")}
            />
          ),
      },
      { id: "expires", head: text.columns.expires, sortable: true, cell: (key) => <Expiry apiKey={key} /> },
    ]
  }, [text, format])
}

/** From Rp 1,000 on decimals are shown only in the tip. */
const LARGE_MICRO = 1_000_000_000
