/** A table of a change, field by field: for the preview of a change, and for the rows of the audit log. */
import type { ReactNode } from "react"
import { Money } from "../../components/values.tsx"
import { type Format, useFormat } from "../../i18n/format.ts"
import { useOperatorText } from "./text.ts"

type Fields = Readonly<Record<string, unknown>>
type OperatorText = ReturnType<typeof useOperatorText>

/** The fields of a JSON object; none for anything else. */
const fieldsOf = (value: unknown): Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : {}

/** Fields that mean nothing to a person. */
const HIDDEN = new Set(["id"])

interface ChangesProps {
  readonly before: unknown
  readonly after: unknown
  readonly caption?: string
}

export function Changes({ before, after, caption }: ChangesProps) {
  const text = useOperatorText()
  const [was, is] = [fieldsOf(before), fieldsOf(after)]
  const names = [...new Set([...Object.keys(was), ...Object.keys(is)])].filter((name) => !HIDDEN.has(name))
  return (
    <table className="changes">
      {caption !== undefined && <caption>{caption}</caption>}
      <thead>
        <tr>
          <th scope="col">{text.field}</th>
          <th scope="col">{text.before}</th>
          <th scope="col">{text.after}</th>
        </tr>
      </thead>
      <tbody>
        {names.map((name) => (
          <tr key={name} className={same(was[name], is[name]) ? undefined : "is-changed"}>
            <th scope="row">{nameOf(name, text)}</th>
            <td>
              <Value name={name} value={was[name]} />
            </td>
            <td>
              <Value name={name} value={is[name]} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)

const isRate = (name: string): name is keyof OperatorText["rates"] =>
  ["input_micro", "output_micro", "cache_read_micro", "cache_write_micro"].includes(name)

function nameOf(name: string, text: OperatorText): ReactNode {
  if (isRate(name)) return text.rates[name]
  const known = Object.entries(text.fields).find(([field]) => field === name)
  return known === undefined ? <code>{name}</code> : known[1]
}

function Value({ name, value }: { readonly name: string; readonly value: unknown }) {
  const text = useOperatorText()
  const format = useFormat()
  if (typeof value === "number" && name.endsWith("_micro")) {
    // Prices are stored for one token and shown for a million.
    return <Money micro={isRate(name) ? BigInt(value) * 1_000_000n : value} form="exact" />
  }
  return words(name, value, text, format)
}

function words(name: string, value: unknown, text: OperatorText, format: Format): string {
  if (value === null || value === undefined) return text.nothing
  if (typeof value === "boolean") return value ? text.yes : text.no
  if (typeof value === "number") return format.number(value)
  if (Array.isArray(value)) return value.length === 0 ? text.nothing : value.map(String).join(" → ")
  if (typeof value !== "string") return JSON.stringify(value)
  const isTime = (name.endsWith("_at") || name === "until") && !Number.isNaN(Date.parse(value))
  return isTime ? format.dateTime(value) : value
}
