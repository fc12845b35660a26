/** What is drawn for requests that nobody means, and what every answer to one has to be: a success or an error of the catalogue, never a bug. */
import * as fc from "fast-check"
import { type FailureCode, failureCodes } from "../../src/failure/table.ts"

/** A value somewhere in a body is put in another's place, dropped, doubled or made strange. */
export type Mutation = readonly [place: number, put: unknown]

const strange = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom<unknown>(undefined, null, "", 0, -1, 1.5, 1e308, 2 ** 53, [], {}, [[]], [null], "__proto__", true),
)
export const mutations = fc.array(fc.tuple(fc.nat(60), strange), { minLength: 1, maxLength: 3 })

export function mutate(body: unknown, changes: readonly Mutation[]): unknown {
  const copy: unknown = structuredClone(body)
  for (const [place, put] of changes) {
    const places: (() => void)[] = []
    const walk = (value: unknown): void => {
      if (typeof value !== "object" || value === null) return
      for (const name of Object.keys(value)) {
        places.push(() => Reflect.set(value, name, structuredClone(put)))
        walk(Reflect.get(value, name))
      }
    }
    walk(copy)
    places[place % Math.max(1, places.length)]?.()
  }
  return copy
}

const failures: ReadonlySet<string> = new Set(failureCodes)
/** What no input may bring about while the database is there. */
const ours: readonly FailureCode[] = [
  "internal.error",
  "internal.panic",
  "billing.reconcile_failed",
  "dependency.database_unavailable",
]

/** What is wrong with an answer; undefined where nothing is. A stream that has no end is not read. */
export async function problemOf(response: Response, isEndless = false): Promise<string | undefined> {
  const { headers, status } = response
  const id = headers.get("x-request-id")
  const code = headers.get("x-error-code")
  if (isEndless && code === null) await response.body?.cancel()
  const text = response.bodyUsed ? "" : await response.text()
  const wrong = (what: string) => `${status} ${code ?? "without a code"}: ${what}: ${text.slice(0, 300)}`
  if (id === null || !/^req_[A-Za-z0-9_-]{1,36}$/.test(id)) return wrong(`its request id is ${id}`)
  if (headers.get("request-id") !== id) return wrong("it has two request ids")
  if (code === null) return status >= 200 && status < 400 ? undefined : wrong("a failure without a code")
  if (!failures.has(code)) return wrong("a code that the catalogue does not have")
  if ((ours as readonly string[]).includes(code)) return wrong("a failure of ours")
  if (status < 400 || status > 504) return wrong("the status of no failure")
  try {
    const body = JSON.parse(text) as { code?: unknown; request_id?: unknown }
    return body.code === code && body.request_id === id ? undefined : wrong("its body says something else")
  } catch {
    return wrong("its body is no JSON")
  }
}
