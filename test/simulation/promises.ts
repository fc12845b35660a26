/** What clients were told, held against the books: whoever saw an answer end was charged for it, once, as it was told. */
import { microToRupiah, micro } from "../../actors/money/micro.ts"
import { inForce } from "../../actors/money/price.ts"
import { unreachable } from "../../actors/unreachable.ts"
import { type CallStory, isUndisturbed, nameOf } from "./client.ts"
import type { Dump, UsageRow } from "./dump.ts"
import { isWithin, miscounted } from "./counts.ts"
import { brokenRetries } from "./promises-of-retries.ts"
import type { Said } from "./stage.ts"

interface PromiseTerms {
  readonly said: ReadonlyMap<string, readonly Said[]>
  readonly holdsLast: boolean
  /** Of answers that may be asked for again. */
  readonly hasRoom: boolean
}

/**
 * `said` is what backends said, each time that one was asked for a request id. `holdsLast`: no actor has crashed, which
 * forgets what was held of its purse, so that others may have had it.
 */
export function brokenPromises(
  dump: Dump,
  stories: readonly CallStory[],
  { said, holdsLast, hasRoom }: PromiseTerms,
): string[] {
  const finals = new Map(dump.usage.filter(({ part }) => part === 0).map((row) => [row.requestId, row]))
  const problems = stories.flatMap((story) => {
    if (story.original !== undefined) return wrongReplay(story, finals.get(story.original))
    const row = finals.get(story.requestId)
    const of = said.get(story.requestId) ?? []
    const problem =
      broken(story, row, of, dump.prices) ??
      lateness(story, row, of) ??
      (row && mispriced(row, dump.prices)) ??
      (row && holdsLast ? overHold(row, of) : undefined)
    return problem === undefined
      ? []
      : [`${story.requestId}: ${problem} (told ${JSON.stringify(story.told)}; ${told(row)})`]
  })
  return [...problems, ...chargedTwice(stories, finals), ...brokenRetries(stories, { finals, said, hasRoom })]
}

/** What carries one name is charged once, in whatever order processes died. */
function chargedTwice(stories: readonly CallStory[], finals: ReadonlyMap<string, UsageRow>): string[] {
  const keyed = stories.filter(({ planned }) => planned.keyed !== undefined)
  return [...Map.groupBy(keyed, ({ planned }) => nameOf(planned))].flatMap(([name, of]) => {
    const answered = of.filter(({ requestId }) => finals.get(requestId)?.status === "ok")
    return answered.length <= 1
      ? []
      : [`${name} is charged for ${answered.map(({ requestId }) => requestId).join(" and ")}`]
  })
}

/** The answer of another call: it has that call's cost, and no record of its own. */
function wrongReplay({ requestId, original, told: said }: CallStory, row: UsageRow | undefined): string[] {
  const wrong = (what: string) => [
    `${requestId} replays ${original}, and ${what} (told ${JSON.stringify(said)}; ${told(row)})`,
  ]
  if (said?.kind !== "whole") return []
  if (row === undefined) return wrong("that has no record")
  if (row.status === "upstream_error" || row.status === "aborted_stream") return wrong("that failed")
  if (said.cost === undefined || said.cost === microToRupiah(micro(row.charge))) return []
  return row.flagged && row.charge === 0n ? [] : wrong("that cost something else")
}

/** What says that the database was not reached, or not in time. */
const untimely: ReadonlySet<string> = new Set([
  "billing.reconcile_failed",
  "dependency.database_unavailable",
  "internal.error",
])

/** Lateness of the process itself gives nothing away and refuses nobody (decisions §13.1), nor does a slow client. */
function lateness(story: CallStory, row: UsageRow | undefined, said: readonly Said[]): string | undefined {
  const { told, undisturbed, process } = story
  if (told === undefined || !undisturbed) return undefined
  if (told.kind === "failure")
    return untimely.has(told.code) ? "it is refused for the process's own lateness" : undefined
  // What became of a call after its client was gone has to be undisturbed too.
  const ended = told.kind === "whole" || isUndisturbed(story, process.troubles.get(story.requestId))
  if (!ended || row?.status !== "billing_error" || said.at(-1)?.whole !== true) return undefined
  return told.kind === "whole"
    ? "an answer is given away for the process's own lateness"
    : "an answer is given away to a client that was gone"
}

function broken(
  { told, sawHead, process }: CallStory,
  row: UsageRow | undefined,
  said: readonly Said[],
  prices: Dump["prices"],
): string | undefined {
  const asked = said.length
  if (row !== undefined && row.status !== "ok" && row.charge > 0n) return "a call that was not ok is charged"
  if (asked === 0 && row !== undefined && row.charge > 0n) return "a call that reached no backend is charged"
  const misbooked = row && miscounted(row, said, prices, process.drainsSince)
  if (misbooked !== undefined) return misbooked
  if (row === undefined && sawHead) return "an answer began and has no record"
  switch (told?.kind) {
    case "whole": {
      if (row === undefined) return "an answer was seen to its end and has no record"
      if (told.cost === undefined) return undefined
      const charged = microToRupiah(micro(row.charge))
      if (told.cost === charged) return undefined
      // The process was taken for dead in between: the house pays.
      return row.flagged && row.charge === 0n ? undefined : `the cost that was told is not the charge ${charged}`
    }
    case "failure":
      if (row !== undefined && row.charge > 0n) return "a failure was told and charged"
      if (row === undefined && asked > 0 && !process.crashed) return "a forwarded call has no record"
      return undefined
    case "left":
    case "broken":
      if (row === undefined && asked > 0 && !process.crashed) return "a forwarded call has no record"
      return undefined
    case undefined:
      return "it was never told anything"
    default:
      return unreachable(told)
  }
}

/** The rates are those in force when the request was admitted (decisions §2). */
function mispriced({ model, status, priceId, openedAt }: UsageRow, prices: Dump["prices"]): string | undefined {
  if (status !== "ok") return undefined
  const due = inForce(
    prices.filter((version) => version.model === model),
    openedAt,
  )
  return due?.priceId === priceId
    ? undefined
    : `it is priced by version ${priceId}, and version ${due?.priceId} was in force`
}

/** An answer within its limit costs no more than is held for it (decisions §3). */
const overHold = ({ status, absorbed }: UsageRow, said: readonly Said[]): string | undefined =>
  status === "ok" && absorbed > 0n && said.every(isWithin)
    ? "the house bears what was asked for within the limit"
    : undefined

const told = (row: UsageRow | undefined): string =>
  row === undefined ? "no record" : `recorded ${row.status}, charged ${row.charge}, absorbed ${row.absorbed}`
