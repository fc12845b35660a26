/**
 * Tables of records. On a phone each row becomes a card with its columns' names in it; to a screen reader it stays a table.
 * Further pages are added below the rows that are there.
 */
import { ArrowDown, ArrowUp, ChevronRight } from "lucide-react"
import { type ButtonHTMLAttributes, type ReactNode, useId } from "react"
import { Button } from "./button.tsx"
import { EmptyState, ErrorState, Skeleton } from "./feedback.tsx"
import { useComponentText } from "./text.ts"

export interface Column<Row> {
  readonly id: string
  readonly head: string
  readonly cell: (row: Row) => ReactNode
  /** Numbers are aligned at the end, digit below digit. */
  readonly numeric?: boolean
  /** The column that names the row: its header cell, which is read out with each other cell. */
  readonly names?: boolean
  /** The table can be sorted by it. */
  readonly sortable?: boolean
  /** Left out on a phone. */
  readonly wide?: boolean
  /** Of the column that names the row: what stands below the name, and is no part of the button that opens it. */
  readonly below?: (row: Row) => ReactNode
}

export interface Sorting {
  readonly by: string
  readonly down: boolean
}

/** Given when there are more rows: loads them, and says whether they are loading, or could not be had. */
export interface More {
  readonly load: () => unknown
  readonly busy: boolean
  readonly error?: unknown
}

interface DataTableProps<Row> {
  /** The table's name, for screen readers. */
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  /** Undefined while the first rows are loading. */
  readonly rows: readonly Row[] | undefined
  readonly rowKey: (row: Row) => string
  readonly error?: unknown
  readonly retry?: () => unknown
  readonly empty: ReactNode
  readonly more?: More | undefined
  readonly sorting?: Sorting
  readonly onSort?: (sorting: Sorting) => void
  /** Opens a row, by a press on its name. */
  readonly onOpen?: (row: Row) => void
  /** What is shown below a row that was opened; undefined for one that is closed. Then `onOpen` closes it too. */
  readonly opened?: (row: Row) => ReactNode | undefined
}

export function DataTable<Row>(props: DataTableProps<Row>) {
  const { caption, columns, rows, rowKey, error, retry, empty, more } = props
  const text = useComponentText()
  if (rows === undefined && error) return <ErrorState error={error} {...(retry && { retry })} />
  if (rows === undefined) return <Skeleton lines={6} />
  if (rows.length === 0) return typeof empty === "string" ? <EmptyState title={empty} /> : empty
  return (
    <>
      {/* The roles are explicit because the layout of the cards on a phone removes the elements' own. */}
      <div className="data-table-room">
        <table className="data-table" role="table">
          <caption className="visually-hidden">{caption}</caption>
          <thead role="rowgroup">
            <tr role="row">
              {columns.map((column) => (
                <HeadCell key={column.id} column={column} {...props} />
              ))}
            </tr>
          </thead>
          <tbody role="rowgroup">
            {rows.map((row) => (
              <BodyRow key={rowKey(row)} row={row} {...props} />
            ))}
          </tbody>
        </table>
      </div>
      {error ? <ErrorState error={error} {...(retry && { retry })} /> : null}
      {more?.error ? <ErrorState error={more.error} /> : null}
      {more !== undefined && (
        <div className="data-table-more">
          <Button onClick={() => void more.load()} busy={more.busy}>
            {text.loadMore}
          </Button>
        </div>
      )}
    </>
  )
}

function cellClass<Row>({ numeric = false, wide = false, names = false }: Column<Row>): string | undefined {
  const classes = [numeric && "is-numeric", wide && "is-wide", names && "is-name"].filter(Boolean)
  return classes.length === 0 ? undefined : classes.join(" ")
}

function HeadCell<Row>({ column, sorting, onSort }: DataTableProps<Row> & { readonly column: Column<Row> }) {
  const text = useComponentText()
  const { id, head, sortable = false, numeric = false } = column
  const sorted = sorting?.by === id ? (sorting.down ? "descending" : "ascending") : undefined
  return (
    <th scope="col" role="columnheader" className={cellClass(column)} aria-sort={sorted}>
      {sortable && onSort !== undefined ? (
        <button
          type="button"
          className="sort-button"
          title={text.sortBy(head)}
          onClick={() => onSort({ by: id, down: sorted === undefined ? numeric : sorted === "ascending" })}
        >
          {head}
          {sorted === "descending" && <ArrowDown aria-hidden="true" />}
          {sorted === "ascending" && <ArrowUp aria-hidden="true" />}
        </button>
      ) : (
        head
      )}
    </th>
  )
}

function BodyRow<Row>({ columns, row, onOpen, opened }: DataTableProps<Row> & { readonly row: Row }) {
  const id = useId()
  const more = opened?.(row)
  const button = onOpen && {
    onClick: () => onOpen(row),
    ...(opened && { "aria-expanded": more !== undefined, "aria-controls": more === undefined ? undefined : id }),
  }
  return (
    <>
      <tr role="row" className={onOpen && "is-openable"}>
        {columns.map((column) => (
          <BodyCell key={column.id} column={column} row={row} button={button} />
        ))}
      </tr>
      {more !== undefined && (
        <tr role="row" className="data-table-more-of" id={id}>
          <td role="cell" colSpan={columns.length}>
            {more}
          </td>
        </tr>
      )}
    </>
  )
}

interface BodyCellProps<Row> {
  readonly column: Column<Row>
  readonly row: Row
  readonly button: ButtonHTMLAttributes<HTMLButtonElement> | undefined
}

function BodyCell<Row>({ column, row, button }: BodyCellProps<Row>) {
  const content = column.cell(row)
  if (column.names) {
    return (
      <th scope="row" role="rowheader" className={cellClass(column)}>
        {button === undefined ? (
          content
        ) : (
          <button type="button" className="row-button" {...button}>
            {button["aria-expanded"] !== undefined && <ChevronRight aria-hidden="true" />}
            {content}
          </button>
        )}
        {column.below?.(row)}
      </th>
    )
  }
  return (
    <td role="cell" className={cellClass(column)} data-column={column.id} data-head={column.head}>
      {content}
    </td>
  )
}
