/**
 * Which member of a model's pool a call goes to. A conversation stays at its member, because backends keep what they have read of
 * it: weighted rendezvous hashing gives each conversation an order of its own over the members, the same in every process, and a
 * member that goes takes only its own conversations with it. Weights hold over many conversations.
 *
 * Pure: nothing here knows the time, and nothing is drawn. What a member is like at the moment is an argument.
 */

/** A member as far as it is chosen by. */
export interface PoolEntry {
  readonly id: string
  /** Higher first. */
  readonly priority: number
  /** Beside the others of its priority; one of 0 is taken where no other is well and has room. */
  readonly weight: number
}

/** What the members are like now, by their places in the list that the ranking was made of. */
export interface PoolStatus {
  /** It may be asked at all: not one that the call has been at, nor one that cannot say what is asked. */
  isEligible(index: number): boolean
  isHealthy(index: number): boolean
  hasCapacity(index: number): boolean
  /** Calls under way. */
  inFlight(index: number): number
  /** How ill one that is not well is; the least is asked where none is well. */
  reopensAt(index: number): number
}

/** `full`: those that are well have no room, so that the call has to wait. `none`: nobody may be asked. */
export type Choice = number | "full" | "none"

interface Place {
  readonly index: number
  readonly hash: number
  readonly weight: number
}

export class Ranking {
  /** By priority, the highest first; those without weight are last. */
  readonly #groups: readonly (readonly Place[])[]

  constructor(members: readonly PoolEntry[]) {
    const rankOf = ({ weight, priority }: PoolEntry) => (weight > 0 ? priority : -1)
    const ranks = [...new Set(members.map(rankOf))].sort((a, b) => b - a)
    const places = members.map((member, index) => ({ member, index, hash: hashOf(member.id) }))
    this.#groups = ranks.map((rank) =>
      places
        .filter(({ member }) => rankOf(member) === rank)
        .map(({ member: { weight }, index, hash }) => ({ index, hash, weight: weight > 0 ? weight : 1 })),
    )
  }

  /** `conversation` is the hash of what the conversation is known by. */
  choose(conversation: number, status: PoolStatus): Choice {
    let hasHealthy = false
    for (const group of this.#groups) {
      const first = highest(group, conversation, (index) => status.isEligible(index) && status.isHealthy(index))
      if (first === undefined) continue
      hasHealthy = true
      if (status.hasCapacity(first.index)) return first.index
      const other = overflow(group, conversation, status)
      if (other !== undefined) return other
    }
    return hasHealthy ? "full" : this.#soonestReopening(status)
  }

  #soonestReopening(status: PoolStatus): Choice {
    let least: number | undefined
    let isFull = false
    for (const group of this.#groups) {
      for (const { index } of group) {
        if (!status.isEligible(index)) continue
        if (!status.hasCapacity(index)) isFull = true
        else if (least === undefined || status.reopensAt(index) < status.reopensAt(least)) least = index
      }
    }
    return least ?? (isFull ? "full" : "none")
  }
}

/**
 * Where a conversation goes whose member has no room: the better of the next two in its order that are well and have room, by calls
 * under way for each unit of weight. Two are enough to even out what overflows, and they are the same ones as long as they last.
 */
function overflow(group: readonly Place[], conversation: number, status: PoolStatus): number | undefined {
  const accepts = (index: number) => status.isEligible(index) && status.isHealthy(index) && status.hasCapacity(index)
  const second = highest(group, conversation, accepts)
  if (second === undefined) return undefined
  const third = highest(group, conversation, (index) => index !== second.index && accepts(index))
  if (third === undefined) return second.index
  const load = ({ index, weight }: Place) => status.inFlight(index) / weight
  return load(third) < load(second) ? third.index : second.index
}

function highest(
  group: readonly Place[],
  conversation: number,
  accepts: (index: number) => boolean,
): Place | undefined {
  let best: Place | undefined
  let bestScore = 0
  for (const place of group) {
    if (!accepts(place.index)) continue
    if (group.length === 1) return place
    const score = scoreOf(place, conversation)
    if (score > bestScore) {
      best = place
      bestScore = score
    }
  }
  return best
}

/**
 * The logarithmic method of weighted rendezvous hashing (Schindelhauer and Schomaker 2005; IETF draft-ietf-bess-weighted-hrw): the
 * highest of -weight ÷ ln(u), with u even over (0, 1), falls to each as often as its weight is of all.
 */
const scoreOf = ({ hash, weight }: Place, conversation: number): number =>
  -weight / Math.log((mixed(Math.imul(conversation ^ hash, 0x9e3779b1) + hash) + 0.5) / 2 ** 32)

/** 32 bits of a text: FNV-1a, mixed. */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (let place = 0; place < text.length; place++) hash = Math.imul(hash ^ text.charCodeAt(place), 0x01000193)
  return mixed(hash)
}

/** The finalizer of MurmurHash3: every bit of the one changes about half the bits of the other. */
function mixed(bits: number): number {
  let hash = bits | 0
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
