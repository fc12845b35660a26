/**
 * What SDKs send again by themselves, held against the decision (docs/decisions/2026-11-23-what-an-sdk-sends-again.md): a repeat is
 * given the answer of its own first call, byte for byte, and is charged nothing; nothing else is taken for a repeat.
 */
import { type CallStory, endOf, nameOf } from "./client.ts"
import type { UsageRow } from "./dump.ts"
import { keys } from "./shop.ts"
import type { Said } from "./stage.ts"

/** How long what was not read to its end is kept, and how long a refusal is remembered. */
const KEPT_MS = 120_000

export interface RetryFacts {
  readonly finals: ReadonlyMap<string, UsageRow>
  readonly said: ReadonlyMap<string, readonly Said[]>
  /** Processes have room for all answers that may be asked for again. */
  readonly hasRoom: boolean
}

export function brokenRetries(stories: readonly CallStory[], facts: RetryFacts): string[] {
  const found: string[] = []
  const ofSdks = stories.filter(({ retries }) => retries !== undefined)
  for (const [process, here] of Map.groupBy(ofSdks, (story) => story.process)) {
    const byId = new Map(here.map((story) => [story.requestId, story]))
    for (const story of here) {
      const { told } = story
      if (told?.kind === "failure" && told.code === "idempotency.mismatch")
        found.push(`${story.requestId} carries no key, and is told that its key is another call's`)
      if (story.original === undefined) continue
      const wrong = wrongRepeat(story, byId.get(story.original), here)
      if (wrong !== undefined) found.push(`${story.requestId} repeats ${story.original} in ${process.id}, ${wrong}`)
    }
    if (!facts.hasRoom) continue
    for (const series of Map.groupBy(here, seriesOf).values()) found.push(...chargedBeside(series, here, facts))
  }
  return found
}

const seriesOf = ({ planned }: CallStory): string => `${planned.key} ${nameOf(planned)}`

/** What is against it that one call was given the answer of another one. */
function wrongRepeat(
  story: CallStory,
  original: CallStory | undefined,
  here: readonly CallStory[],
): string | undefined {
  if (story.retries === 0) return "and was never sent before"
  if (keys[story.planned.key]?.replaysRetries === false) return "which its owner has turned off"
  if (original === undefined || seriesOf(original) !== seriesOf(story)) return "which asked for something else"
  if (original.original !== undefined) return "which was a repeat itself"
  if (!agree(story, original)) return "and is given other bytes"
  const others = repeatsOf(original, here).filter((other) => other !== story && other.begunAt <= story.begunAt)
  const { told, toldAt } = original
  return told?.kind === "whole" && toldAt < story.begunAt && others.length === 0 ? "which had come through" : undefined
}

const repeatsOf = ({ requestId }: CallStory, here: readonly CallStory[]): CallStory[] =>
  here.filter(({ original }) => original === requestId)

/** As far as both have read. Signs of life are no part of an answer. */
function agree(one: CallStory, other: CallStory): boolean {
  const [a, b] = [plain(one), plain(other)]
  return a.startsWith(b) || b.startsWith(a)
}

/** A sign of life that broke off is none either. */
const plain = ({ text, planned }: CallStory): string =>
  planned.stream ? text.replaceAll(/^: heartbeat(\n|$)/gm, "") : text.trimStart()

/** Calls of one series that were charged beside one of which they could have had the answer. */
function chargedBeside(series: readonly CallStory[], here: readonly CallStory[], facts: RetryFacts): string[] {
  const own = series.filter(({ original }) => original === undefined)
  return own.flatMap((story) => {
    if (!isCharged(story, facts) || !mayRepeat(story)) return []
    const before = own.filter((other) => other !== story && other.begunAt <= story.begunAt)
    const first = before.find((other) => isCharged(other, facts) && isToBeHad(other, story, { before, here, ...facts }))
    return first === undefined ? [] : [`${story.requestId} is charged beside ${first.requestId}, which it repeats`]
  })
}

const isCharged = ({ requestId }: CallStory, { finals }: RetryFacts): boolean => finals.get(requestId)?.status === "ok"

const mayRepeat = ({ retries, planned }: CallStory): boolean =>
  (retries ?? 0) > 0 && keys[planned.key]?.replaysRetries !== false

interface Around extends RetryFacts {
  /** All that was made of the same series before. */
  readonly before: readonly CallStory[]
  readonly here: readonly CallStory[]
}

/** Whether the answer of one call was surely there for another that came later. */
function isToBeHad(first: CallStory, later: CallStory, { before, here, said }: Around): boolean {
  const askedAt = said.get(first.requestId)?.[0]?.askedAt ?? Infinity
  if (askedAt >= later.begunAt || later.begunAt - first.begunAt >= KEPT_MS) return false
  const readers = [first, ...repeatsOf(first, here)].filter(({ begunAt }) => begunAt <= later.begunAt)
  if (readers.some((reader) => mayHaveAll(reader))) return false
  if (readers.every(({ goneAt }) => goneAt < later.begunAt)) return true
  // Somebody seems to read it: it is given only where nothing else can be meant.
  return before.length === 1 && !here.some((other) => isRefused(other, later))
}

/** What was handed to a connection counts as delivered, however much of it came. */
const mayHaveAll = ({ planned, text, wasHandedOver }: CallStory): boolean =>
  wasHandedOver || (planned.stream && endOf(planned, text) !== "nothing")

function isRefused({ planned, told, toldAt }: CallStory, later: CallStory): boolean {
  const isSame = keys[planned.key]?.keyId === keys[later.planned.key]?.keyId
  return isSame && told?.kind === "failure" && toldAt > later.begunAt - KEPT_MS
}
