/** What clients were told, held against the books: whoever saw an answer end was charged for it, once, as it was told. */
import { microToRupiah, micro } from "../../actors/money/micro.ts"
import { unreachable } from "../../actors/unreachable.ts"
import type { CallStory } from "./client.ts"
import type { Dump, UsageRow } from "./dump.ts"

/** `asked` counts how often backends were asked for each request id. */
export function brokenPromises(
  dump: Dump,
  stories: readonly CallStory[],
  asked: ReadonlyMap<string, number>,
): string[] {
  const finals = new Map(dump.usage.filter(({ part }) => part === 0).map((row) => [row.requestId, row]))
  return stories.flatMap((story) => {
    const row = finals.get(story.requestId)
    const problem = broken(story, row, asked.get(story.requestId) ?? 0)
    return problem === undefined
      ? []
      : [`${story.requestId}: ${problem} (told ${JSON.stringify(story.told)}; ${told(row)})`]
  })
}

function broken({ told, sawHead, process }: CallStory, row: UsageRow | undefined, asked: number): string | undefined {
  if (row !== undefined && row.status !== "ok" && row.charge > 0n) return "a call that was not ok is charged"
  if (asked === 0 && row !== undefined && row.charge > 0n) return "a call that reached no backend is charged"
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

const told = (row: UsageRow | undefined): string =>
  row === undefined ? "no record" : `recorded ${row.status}, charged ${row.charge}, absorbed ${row.absorbed}`
