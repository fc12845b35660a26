/** A key on a virtual clock, with leases as a database would give them. */
import { VirtualClock } from "../kernel/virtual-time.ts"
import { Key } from "../../actors/key.ts"
import type { CountReply, KeyCommand, KeyRecord, KeyView, LoadedKey, ReserveReply } from "../../actors/key-record.ts"
import { type Micro, micro } from "../../actors/money/micro.ts"
import type { Budget } from "../../actors/key-limits.ts"
import { type LeaseNews, whole } from "../../actors/lease.ts"
import { calendarAt, carriedOver, type RunningPeriods, type SpendingPeriod } from "../../actors/period.ts"
import type { WindowCounts } from "../../actors/window.ts"

export const plain: KeyRecord = {
  keyId: "key",
  accountId: "acc",
  revoked: false,
  accountDeleted: false,
  accountFrozen: false,
  timeZone: "Asia/Jakarta",
  requestsPerMinute: undefined,
  tokensPerMinute: undefined,
  budget: undefined,
  fallback: "never_dearer",
}
export const budget = (limit: bigint, period: SpendingPeriod) => ({ budget: { limit: micro(limit), period } })

interface Row {
  granted: bigint
  returned: bigint
  settled: bigint
  version: number
  elsewhere: bigint
}

/** What Postgres has of the budgets: all that is free is leased to who asks. */
class Leases {
  readonly #rows = new Map<string, Row>()
  limit = 0n
  spent = 0n
  #row(budget: Budget) {
    const name = `${budget.period} ${budget.start}`
    const row = this.#rows.get(name) ?? { granted: 0n, returned: 0n, settled: 0n, version: 0, elsewhere: this.spent }
    this.#rows.set(name, row)
    return row
  }
  grow(budget: Budget): LeaseNews {
    const row = this.#row(budget)
    const free = this.limit - row.elsewhere - row.granted + row.returned
    if (free > 0n) row.granted += free
    row.version++
    return { type: "grown", lease: this.#lease(row), more: false, elsewhere: micro(row.elsewhere) }
  }
  giveBack(budget: Budget, returned: bigint): LeaseNews {
    const row = this.#row(budget)
    row.returned = returned
    row.version++
    return { type: "returned", lease: this.#lease(row) }
  }
  /** As `apply_1` does: a charge is of the lease as far as that has it, held or not; what is taken back is so as far as it has settled. */
  book(period: SpendingPeriod, start: number, charge: bigint): void {
    const row = this.#rows.get(`${period} ${start}`)!
    const left = row.granted - row.returned - row.settled
    const most = charge < left ? charge : left
    const ofLease = most < -row.settled ? -row.settled : most
    row.settled += ofLease
    row.elsewhere += charge - ofLease
  }
  /** What the process has of a budget: spent or not. */
  kept(period: SpendingPeriod, start: number): bigint {
    const { granted, returned } = this.#rows.get(`${period} ${start}`) ?? { granted: 0n, returned: 0n }
    return granted - returned
  }
  #lease = ({ granted, returned, settled, version }: Row) => ({
    granted: micro(granted),
    returned: micro(returned),
    settled: micro(settled),
    version,
  })
}

/** A key on a wall clock that starts at `at` (ISO 8601). */
export function key(
  record: Partial<KeyRecord>,
  {
    at = "2026-03-10T12:00:00Z",
    spent = 0n,
    share = whole,
    counts = undefined as WindowCounts | undefined,
    isRestarted = false,
  } = {},
) {
  const clock = new VirtualClock(Date.parse(at))
  const leases = new Leases()
  leases.spent = spent
  let loads = 0
  const pending: KeyCommand[] = []
  /** What a turn sent comes after it. */
  const send = (command: KeyCommand) => {
    behaviour.receive(command)
    for (let next = pending.shift(); next !== undefined; next = pending.shift()) behaviour.receive(next)
  }
  function answer<T>(make: (reply: (value: T) => void) => KeyCommand): T {
    const values: T[] = []
    send(make((value) => void values.push(value)))
    return values[0]!
  }
  const loaded = (changed: Partial<KeyRecord>, so = 0n): LoadedKey => {
    const whole = { ...plain, ...record, ...changed }
    leases.limit = whole.budget?.limit ?? 0n
    return {
      record: whole,
      starts: calendarAt(clock.now(), whole.timeZone, whole.running).starts,
      spent: { daily: micro(so), monthly: micro(so), total: micro(so) },
    }
  }
  const behaviour: Key = new Key(
    {
      clock,
      self: (command) => send(command),
      load: () => loads++,
      counts,
      driverOf: (budget) => ({
        grow: () => void pending.push({ type: "budget", budget, news: leases.grow(budget) }),
        giveBack: (returned) => void pending.push({ type: "budget", budget, news: leases.giveBack(budget, returned) }),
      }),
    },
    loaded({}, spent),
    share,
    isRestarted,
  )
  const view = () => answer<KeyView>((reply) => ({ type: "view", reply }))
  return {
    clock,
    behaviour,
    send,
    view,
    loads: () => loads,
    count: (counted = true, address = "") =>
      answer<CountReply>((reply) => ({ type: "count", call: { counted, secret: "", origin: { address } }, reply })),
    reserve: (requestId: string, least: bigint, worst = least, tokens = 0) =>
      answer<ReserveReply>((reply) => ({
        type: "reserve",
        reservation: { requestId, tokens, least: micro(least), worst: micro(worst) },
        reply,
      })),
    settle: (requestId: string, actual: bigint, starts = calendarAt(clock.now(), plain.timeZone).starts, tokens = 0) =>
      answer<Micro>((reply) => ({
        type: "settle",
        usage: { requestId, tokens, actual: micro(actual), starts },
        reply,
      })),
    release: (requestId: string) => send({ type: "release", requestId }),
    trim: (requestId: string, hold: bigint) => send({ type: "trim", requestId, hold: micro(hold) }),
    change: (changed: Partial<KeyRecord>, so = 0n) => {
      leases.spent = so
      send({ type: "changed" })
      send({ type: "loaded", loaded: loaded(changed, so) })
    },
    usage: () => view().budget?.usage,
    book: (period: SpendingPeriod, charge: bigint) =>
      leases.book(period, calendarAt(clock.now(), plain.timeZone).starts[period], charge),
    kept: (period: SpendingPeriod, start = calendarAt(clock.now(), plain.timeZone).starts[period]) =>
      leases.kept(period, start),
    moveTo: (iso: string) => {
      leases.spent = 0n
      clock.advance(Date.parse(iso) - clock.now())
    },
  }
}

/** What runs in Jakarta, or in `from`, as a change of the zone leaves it. */
export const movedTo = (
  to: string,
  now: number,
  from = plain.timeZone,
  running: RunningPeriods = {},
): RunningPeriods => ({
  daily: carriedOver(now, "daily", from, to, running.daily),
  monthly: carriedOver(now, "monthly", from, to, running.monthly),
})
export const period = (start: string, ownEnd: string, end: string) => ({
  start: Date.parse(start),
  ownEnd: Date.parse(ownEnd),
  end: Date.parse(end),
})

export const startsOf = (reply: ReserveReply) => (reply.kind === "reserved" ? reply.starts : undefined)!

export const withSecret = (behaviour: Key, secret: string): CountReply => {
  let told: CountReply = { kind: "unknown" }
  const call = { counted: true, secret, origin: { address: "" } }
  behaviour.receive({ type: "count", call, reply: (value) => (told = value) })
  return told
}
