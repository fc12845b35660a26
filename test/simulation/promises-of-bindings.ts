/**
 * What keys are bound to, and until when, held against what became of calls: none is answered outside of it, by whichever model, and
 * none is refused by a binding that its key has not. A child is bound to what its parent is bound to as well.
 */
import type { KeyRecord } from "../../actors/key-record.ts"
import { micro } from "../../actors/money/micro.ts"
import type { CallStory } from "./client.ts"
import type { Dump } from "./dump.ts"
import type { PlannedBound, PlannedCall } from "./plan.ts"
import { keys } from "./shop.ts"
import type { Said } from "./stage.ts"

/** As a key is bound from some moment on. `expiresAt` is of the wall clock. */
export interface BoundKey extends Pick<PlannedBound, "models" | "endpoints" | "maxRate"> {
  readonly expiresAt: number | undefined
}

export type Bounds = ReadonlyMap<number, readonly BoundKey[]>

export const unbound: BoundKey = { models: undefined, endpoints: undefined, maxRate: undefined, expiresAt: undefined }

/** As the books say it. */
export function recordOf({
  models,
  endpoints,
  maxRate,
  expiresAt,
}: BoundKey): Pick<KeyRecord, "binding" | "expiresAt"> {
  const binding = {
    models: models && new Set(models),
    endpoints: endpoints && new Set(endpoints),
    maxRate: maxRate === undefined ? undefined : micro(BigInt(maxRate)),
  }
  const isBound = Object.values(binding).some((bound) => bound !== undefined)
  return { expiresAt, binding: isBound ? binding : undefined }
}

interface Facts {
  readonly bounds: Bounds
  readonly said: ReadonlyMap<string, readonly Said[]>
  /** The wall clock is never set. */
  readonly clockGoesOn: boolean
}

/** The wall clock of a process is up to half as far from the world's. */
const APART_MS = 2_000

export function brokenBindings(dump: Dump, stories: readonly CallStory[], facts: Facts): string[] {
  const finals = new Map(dump.usage.filter(({ part }) => part === 0).map((row) => [row.requestId, row]))
  return stories.flatMap((story) => {
    const row = finals.get(story.requestId)
    const wasForwarded = (facts.said.get(story.requestId)?.length ?? 0) > 0 || row !== undefined || story.sawHead
    const problem = wasForwarded
      ? wronglyAnswered(story, row?.model ?? story.planned.model, dump, facts)
      : wronglyRefused(story, dump, facts)
    return problem === undefined ? [] : [`${story.requestId} ${problem}`]
  })
}

/** Of what each of the keys above a call was bound to, all that may have been in force. */
function boundsOf({ planned }: CallStory, bounds: Bounds): (readonly BoundKey[])[] {
  const parent = keys.findIndex(({ keyId }) => keyId === keys[planned.key]?.parentId)
  return [planned.key, parent].map((key) => bounds.get(key) ?? [unbound])
}

function wronglyAnswered(story: CallStory, model: string, dump: Dump, facts: Facts): string | undefined {
  const { planned, begunOn } = story
  for (const history of boundsOf(story, facts.bounds)) {
    if (history.every((bound) => !isFormat(bound, planned))) return "is answered on an endpoint that its key is not for"
    for (const of of [planned.model, model])
      if (history.every((bound) => !isModel(bound, of, dump, "once")))
        return `is answered though its key is not for ${of}`
    const isOver = history.every(({ expiresAt = Infinity }) => expiresAt + APART_MS <= begunOn)
    if (facts.clockGoesOn && isOver) return "is answered though its key had expired"
  }
  return undefined
}

/** Those that were not changed say for certain whom they refuse. */
function wronglyRefused(story: CallStory, dump: Dump, facts: Facts): string | undefined {
  const { planned, told, toldOn } = story
  if (told?.kind !== "failure") return undefined
  const all = boundsOf(story, facts.bounds).flat()
  const mayUse = (bound: BoundKey) => isFormat(bound, planned) && isModel(bound, planned.model, dump, "always")
  if (told.code === "auth.key_not_allowed" && all.every(mayUse)) return "is refused by a binding that its key has not"
  const isValid = all.every(({ expiresAt = Infinity }) => expiresAt > toldOn + APART_MS)
  if (told.code === "auth.api_key_expired" && facts.clockGoesOn && isValid) return "is refused before its key expires"
  return undefined
}

const isFormat = ({ endpoints }: BoundKey, { format }: PlannedCall): boolean => endpoints?.includes(format) ?? true

/** By prices that were once in force, or by all. */
function isModel({ models, maxRate }: BoundKey, id: string, { prices }: Dump, when: "once" | "always"): boolean {
  if (models !== undefined && !models.includes(id)) return false
  if (maxRate === undefined) return true
  const fits = prices
    .filter(({ model }) => model === id)
    .map(({ rates }) => Object.values(rates).every((rate) => rate <= BigInt(maxRate)))
  return when === "once" ? fits.includes(true) : !fits.includes(false)
}
