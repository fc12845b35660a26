import { describe, expect, test } from "bun:test"
import {
  APART_AT_ONCE,
  type Batch,
  BatchRefused,
  type Committed,
  Ledger,
  type LedgerCommand,
  type LedgerView,
  type Opening,
  RowsLocked,
  type Settlement,
} from "../../actors/ledger.ts"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { micro, zero } from "../../actors/money/micro.ts"
import { noTokens } from "../../actors/money/price.ts"
import { flush } from "../kernel/world.ts"

/** What follows an `@` is the account. */
const opening = (requestId: string, streamed = false): Opening => ({
  requestId,
  accountId: requestId.split("@")[1] ?? "acc",
  keyId: "key",
  leaseId: 1n,
  model: "m",
  endpoint: "chat",
  streamed,
  hold: micro(10n),
  priceId: 1n,
  openedAt: 0,
  starts: { daily: 0, monthly: 0, total: 0 },
})

const settlement = (requestId: string, charge = 5n): Settlement => ({
  opening: opening(requestId),
  records: [
    {
      part: 0,
      model: "m",
      priceId: 1n,
      status: "ok",
      tokens: noTokens,
      charge: micro(charge),
      absorbed: zero,
      excess: zero,
      turns: 1,
      attempts: 1,
      errorCode: undefined,
      flagged: false,
      firstTokenMs: undefined,
      durationMs: 1,
      member: undefined,
      cost: undefined,
    },
  ],
  voided: false,
})

/** A ledger whose commits end when the test says so. */
function ledger() {
  const clock = new VirtualClock()
  const commits: { readonly batch: Batch; readonly patient: boolean; readonly end: PromiseWithResolvers<Committed> }[] =
    []
  const durable: string[] = []
  const failures: unknown[] = []
  const behaviour: Ledger = new Ledger({
    clock,
    self: (command: LedgerCommand) => behaviour.receive(command),
    store: {
      commit(batch, patient) {
        const end = Promise.withResolvers<Committed>()
        commits.push({ batch, patient, end })
        return end.promise
      },
    },
    failed: (cause) => failures.push(cause),
  })
  const told = (name: string) => (outcome?: string) => void durable.push(outcome === "fenced" ? `${name} fenced` : name)
  return {
    clock,
    commits,
    durable,
    failures,
    open: (id: string) => behaviour.receive({ type: "open", opening: opening(id), reply: told(`open ${id}`) }),
    openStream: (id: string) =>
      behaviour.receive({ type: "open", opening: opening(id, true), reply: told(`open ${id}`) }),
    settle: (id: string) =>
      behaviour.receive({ type: "settle", settlement: settlement(id), reply: told(`settle ${id}`) }),
    voids: (id: string) => behaviour.receive({ type: "void", settlement: settlement(id) }),
    barrier: (name: string, accountId?: string) => behaviour.receive({ type: "barrier", accountId, reply: told(name) }),
    /** The last commit, or the one of that number. */
    committed: async ({ fenced = [], locked = [] }: Partial<Committed> = {}, number = -1) => {
      commits.at(number)?.end.resolve({ fenced, locked })
      await flush()
    },
    /** Until the tries after which an account is set apart are used up: the next commit that leaves it out does it. */
    meets: async (locked: readonly string[]) => {
      for (const againMs of [3, 6, 12]) {
        commits.at(-1)?.end.resolve({ fenced: [], locked })
        await flush()
        clock.advance(againMs)
      }
    },
    fails: async (error: Error = new Error("cut"), number = -1) => {
      commits.at(number)?.end.reject(error)
      await flush()
    },
    view: (accountId?: string): LedgerView => {
      const views: LedgerView[] = []
      behaviour.receive({ type: "view", accountId, reply: (view) => views.push(view) })
      return views[0]!
    },
    /** Each batch as the request ids that it opens, and those that it settles with their charges. */
    batches: () =>
      commits.map(({ batch }) => [
        batch.openings.map(({ requestId }) => requestId).join(" "),
        batch.settlements
          .map(({ opening: { requestId }, records: [{ charge, status }], voided }) =>
            voided ? `${requestId} void ${charge} ${status}` : `${requestId} ${charge}`,
          )
          .join(", "),
      ]),
  }
}

describe("the ledger", () => {
  test("commits the first settlement at once, and what comes meanwhile in one batch after it", async () => {
    const { clock, open, settle, committed, batches, durable } = ledger()
    settle("a")
    for (const id of ["b", "c"]) open(id)
    settle("d")
    clock.advance(20)
    expect(batches()).toEqual([["", "a 5"]])
    expect(durable).toEqual([])
    await committed()
    expect(durable).toEqual(["settle a"])
    await committed()
    expect(batches()).toEqual([
      ["", "a 5"],
      ["b c", "d 5"],
    ])
    expect(durable).toEqual(["settle a", "open b", "open c", "settle d"])
  })

  test("lets an opening wait 20 ms for its settlement, one of a stream 5, and no longer", async () => {
    const { clock, open, openStream, settle, committed, batches, durable } = ledger()
    open("quick")
    clock.advance(19)
    expect(batches()).toEqual([])
    settle("quick")
    await committed()
    expect(durable).toEqual(["open quick", "settle quick"])
    open("slow")
    openStream("stream")
    clock.advance(4)
    expect(batches().length).toBe(1)
    clock.advance(1)
    await committed()
    // Others' settlements do not take it along.
    settle("other")
    await committed()
    clock.advance(14)
    expect(batches().length).toBe(3)
    clock.advance(1)
    await committed()
    settle("slow")
    await committed()
    expect(batches()).toEqual([
      ["", "quick 5"],
      ["stream", ""],
      ["", "other 5"],
      ["slow", ""],
      ["", "slow 5"],
    ])
    expect(durable.slice(2)).toEqual(["open stream", "settle other", "open slow", "settle slow"])
  })

  test("takes all openings along when somebody waits for all", async () => {
    const { open, barrier, committed, batches, durable } = ledger()
    open("a")
    barrier("all")
    open("b")
    expect(batches()).toEqual([["a", ""]])
    await committed()
    expect(durable).toEqual(["open a", "all"])
    barrier("all again")
    await committed()
    expect(batches().at(-1)).toEqual(["b", ""])
    expect(durable.slice(2)).toEqual(["open b", "all again"])
  })

  test("begins eight milliseconds after it began a large commit, and at once after a small one", async () => {
    const { clock, settle, committed, batches } = ledger()
    const many = Array.from({ length: 8 }, (_, n) => `r${n}`)
    settle("first")
    for (const id of many) settle(id)
    await committed()
    clock.advance(2)
    settle("late")
    await committed()
    expect(batches().length).toBe(2)
    clock.advance(5)
    settle("later")
    expect(batches().length).toBe(2)
    clock.advance(1)
    expect(batches().at(-1)).toEqual(["", "late 5, later 5"])
    await committed()
    settle("alone")
    expect(batches().at(-1)).toEqual(["", "alone 5"])
    // One that took longer than that has gathered enough.
    for (const id of many) settle(id)
    await committed()
    settle("after")
    clock.advance(8)
    await committed()
    expect(batches().at(-1)).toEqual(["", "after 5"])
  })

  test("tells whose charge the house bears, because the lease was closed", async () => {
    const { settle, committed, durable } = ledger()
    settle("a")
    settle("b")
    settle("c")
    await committed()
    await committed({ fenced: ["c"] })
    expect(durable).toEqual(["settle a", "settle b", "settle c fenced"])
  })

  test("commits no more than a thousand entries at once, in order", async () => {
    const { clock, open, committed, commits, view } = ledger()
    open("r0")
    clock.advance(20)
    for (let index = 1; index <= 2_500; index++) open(`r${index}`)
    for (let batch = 0; batch < 3; batch++) {
      clock.advance(20)
      await committed()
    }
    expect(commits.map(({ batch }) => batch.openings.length)).toEqual([1, 1_000, 1_000, 500])
    const order = commits.flatMap(({ batch }) => batch.openings.map(({ requestId }) => requestId))
    expect(order).toEqual(Array.from({ length: 2_501 }, (_, index) => `r${index}`))
    expect(view().backlog).toBe(500)
  })

  test("holds any number of entries while the store is away", async () => {
    const { settle, committed, commits, view } = ledger()
    settle("first")
    for (let n = 0; n < 400_000; n++) settle(`call ${n}`)
    await committed()
    expect(commits.at(-1)!.batch.settlements).toHaveLength(1_000)
    await committed()
    expect(view().backlog).toBe(399_000)
  })

  test("sends a batch whose outcome is unknown again, the same and ever more slowly, and tells nobody until it is known", async () => {
    const { clock, open, settle, fails, committed, batches, durable, failures } = ledger()
    open("a")
    clock.advance(20)
    settle("b")
    for (const waitMs of [20, 40, 80, 160, 320, 500, 500]) {
      await fails()
      clock.advance(waitMs - 1)
      expect(batches().length).toBe(failures.length)
      clock.advance(1)
      expect(batches().length).toBe(failures.length + 1)
    }
    expect(new Set(batches().map(String))).toEqual(new Set(["a,"]))
    expect(durable).toEqual([])
    await committed()
    await committed()
    expect(durable).toEqual(["open a", "settle b"])
    expect(batches().at(-1)).toEqual(["", "b 5"])
    // The next one is tried again as soon as the first was.
    settle("c")
    await fails()
    clock.advance(20)
    await committed()
    expect(durable.at(-1)).toBe("settle c")
  })

  test("does not write an opening whose settlement is in the same batch, and tells both durable", async () => {
    const { open, settle, committed, batches, durable } = ledger()
    settle("first")
    open("a")
    settle("a")
    await committed()
    await committed()
    expect(batches().at(-1)).toEqual(["", "a 5"])
    expect(durable).toEqual(["settle first", "open a", "settle a"])
  })

  test("looks for the one entry of a refused batch, voids that one, and has as many in a batch as before soon after", async () => {
    const { clock, open, settle, barrier, committed, fails, commits, batches, durable, view } = ledger()
    const ends = async () => {
      for (let commit = 0; view().backlog > 0; commit++) {
        if (commit > 20) throw new Error("the bad entry is not found")
        const [opened = "", settled = ""] = batches().at(-1)!
        if (/bad 5|bad opening/.test(`${opened} ${settled}`)) await fails(new BatchRefused("out of range"))
        else await committed()
        clock.advance(20)
      }
    }
    settle("first")
    for (const id of ["a", "b", "bad", "c"]) settle(id)
    barrier("all")
    await ends()
    expect(durable.toSorted()).toEqual(["all", "settle a", "settle b", "settle c", "settle first"])
    expect(batches().filter(([, settled]) => settled?.includes("bad void"))).toHaveLength(1)
    // An opening has no charge to take back.
    settle("second")
    open("bad opening")
    for (const id of ["d", "e"]) settle(id)
    await ends()
    expect(durable.slice(5)).toEqual(["settle second", "settle d", "settle e"])
    expect(batches().flatMap(([, settled]) => settled?.match(/bad \S* ?void/g) ?? [])).toHaveLength(1)
    for (let n = 0; n < 1_100; n++) settle(`many ${n}`)
    const before = commits.length
    await ends()
    expect(commits.slice(before).some(({ batch }) => batch.settlements.length > 500)).toBe(true)
  })

  test("voids a settlement that is refused while its account is set apart, and then has the account as all others", async () => {
    const { settle, committed, meets, fails, batches, commits, durable } = ledger()
    settle("first")
    settle("bad@locked")
    await committed()
    await meets(["locked"])
    await committed({ locked: ["locked"] })
    await fails(new BatchRefused("out of range"))
    expect(batches().at(-1)).toEqual(["", "bad@locked void 0 billing_error"])
    await committed()
    settle("a@locked")
    expect([batches().at(-1), commits.at(-1)?.patient]).toEqual([["", "a@locked 5"], false])
    await committed()
    expect(durable).toEqual(["settle first", "settle a@locked"])
  })

  test("gives up a refused settlement's reversal that is refused too, and keeps nobody waiting who waits for all", async () => {
    const { settle, barrier, committed, fails, batches, durable } = ledger()
    settle("bad")
    barrier("all")
    await fails(new BatchRefused("out of range"))
    await fails(new BatchRefused("out of range"))
    expect(batches()).toEqual([
      ["", "bad 5"],
      ["", "bad void 0 billing_error"],
      ["", ""],
    ])
    await committed()
    expect(durable).toEqual(["all"])
  })

  test("replaces a settlement that is voided before it was sent", async () => {
    const { open, settle, barrier, voids, committed, batches } = ledger()
    settle("first")
    open("b")
    settle("a")
    barrier("all")
    settle("c")
    voids("a")
    await committed()
    expect(batches().at(-1)).toEqual(["b", "a void 0 billing_error, c 5"])
  })

  test("follows a settlement that may have been sent by its reversal", async () => {
    const { settle, voids, committed, batches } = ledger()
    settle("a")
    voids("a")
    await committed()
    await committed()
    voids("a")
    expect(batches()).toEqual([
      ["", "a 5"],
      ["", "a void 0 billing_error"],
      ["", "a void 0 billing_error"],
    ])
  })

  test("never tries a settlement again that was voided while its commit was under way", async () => {
    const { clock, settle, voids, fails, committed, batches } = ledger()
    settle("a")
    voids("a")
    await fails()
    clock.advance(1_000)
    await committed()
    expect(batches().slice(0, 3)).toEqual([
      ["", "a 5"],
      ["", "a void 0 billing_error"],
      ["", "a void 0 billing_error"],
    ])
  })

  test("answers a barrier when all that was sent before is durable, without a commit of its own", async () => {
    const { open, settle, barrier, committed, durable, commits } = ledger()
    barrier("idle")
    expect(durable).toEqual(["idle"])
    open("a")
    barrier("after a")
    settle("a")
    barrier("after the settlement")
    expect(durable).toEqual(["idle"])
    await committed()
    expect(durable).toEqual(["idle", "open a", "after a"])
    await committed()
    expect(durable.slice(3)).toEqual(["settle a", "after the settlement"])
    expect(commits.length).toBe(2)
  })

  test("asks each second whether the store is there, and says for how long it has not been", async () => {
    const { clock, committed, fails, commits, batches, view } = ledger()
    clock.advance(1_000)
    expect(batches()).toEqual([["", ""]])
    await committed()
    expect(view()).toEqual({ backlog: 0, lagMs: 0 })
    clock.advance(1_000)
    await fails()
    clock.advance(900)
    expect(view()).toEqual({ backlog: 0, lagMs: 900 })
    // While a commit is tried, nobody probes.
    const tried = commits.length
    clock.advance(5_000)
    expect(commits.length).toBe(tried)
    await committed()
    expect(view().lagMs).toBe(0)
  })

  test("tries an account again whose rows are locked, at first with the next commits, and nobody else waits", async () => {
    const { clock, open, settle, committed, commits, batches, durable } = ledger()
    settle("first")
    settle("a@busy")
    settle("b@other")
    await committed()
    await committed({ locked: ["busy"] })
    expect(durable).toEqual(["settle first", "settle b@other"])
    // What comes for it meanwhile waits with it, and what others settle is booked at once.
    settle("c@busy")
    open("d@busy")
    clock.advance(1)
    settle("e@other")
    expect(batches().slice(2)).toEqual([["", "e@other 5"]])
    await committed()
    clock.advance(1)
    expect(batches().length).toBe(3)
    clock.advance(1)
    expect(batches().slice(3)).toEqual([["", "a@busy 5, c@busy 5"]])
    await committed({ locked: ["busy"] })
    clock.advance(5)
    expect(batches().length).toBe(4)
    clock.advance(1)
    await committed()
    expect(durable.slice(2)).toEqual(["settle e@other", "settle a@busy", "settle c@busy"])
    expect(commits.every(({ patient }) => !patient)).toBe(true)
  })

  test("books an account less often that others book too, others as ever, and it as others when they no longer do", async () => {
    const { clock, settle, committed, commits } = ledger()
    let calls = 0
    /** The milliseconds that a call of the account waits for its commit when it comes right after the one before. */
    const waits = async () => {
      const before = commits.length
      settle(`${++calls}@busy`)
      let waited = 0
      for (; commits.length === before; waited++) clock.advance(1)
      return waited
    }
    expect(await waits()).toBe(0)
    await committed({ locked: ["busy"] })
    clock.advance(3)
    await committed()
    // Half as often after each meeting, up to 32 ms; nobody else waits for that.
    const met: number[] = []
    for (let n = 0; n < 5; n++) {
      met.push(await waits())
      settle(`${++calls}@other`)
      await committed({ locked: ["busy"] })
      await committed()
      clock.advance(3)
      await committed()
    }
    expect(met).toEqual([8, 16, 32, 32, 32])
    const alone: number[] = []
    for (let n = 0; n < 12; n++) {
      alone.push(await waits())
      await committed()
    }
    expect(alone.slice(0, 4)).toEqual([32, 26, 21, 16])
    expect(alone.at(-1)).toBe(0)
  })

  test.each([
    ["still knows within a second", 1_008, 7],
    ["has forgotten after a second without a call of it", 1_009, 0],
  ])("%s that others book an account too", async (_, quietMs, waitsMs) => {
    const { clock, settle, committed, commits } = ledger()
    settle("a@busy")
    await committed({ locked: ["busy"] })
    clock.advance(3)
    await committed()
    clock.advance(quietMs)
    // The probe's.
    await committed()
    settle("b@other")
    await committed()
    settle("c@busy")
    await committed()
    const before = commits.length
    settle("d@busy")
    let waited = 0
    for (; commits.length === before && waited < 100; waited++) clock.advance(1)
    expect(waited).toBe(waitsMs)
  })

  test("commits an account whose rows stay locked on its own, patiently, and everybody else without it", async () => {
    const { clock, open, settle, committed, meets, commits, batches, durable } = ledger()
    settle("first")
    settle("a@locked")
    settle("b@other")
    open("c@locked")
    clock.advance(20)
    await committed()
    await meets(["locked"])
    settle("d@locked")
    settle("e@other")
    await committed({ locked: ["locked"] })
    expect(durable).toEqual(["settle first", "settle b@other"])
    expect(batches().slice(5)).toEqual([
      ["", "e@other 5"],
      ["c@locked", "a@locked 5, d@locked 5"],
    ])
    expect(commits.map(({ patient }) => patient)).toEqual([false, false, false, false, false, false, true])
    // What comes for it meanwhile waits for its turn, and nobody waits for it.
    settle("f@locked")
    open("i@locked")
    await committed({}, 5)
    settle("g@other")
    await committed({}, 7)
    expect(durable.slice(2)).toEqual(["settle e@other", "settle g@other"])
    await committed({}, 6)
    expect(durable.slice(4)).toEqual(["settle a@locked", "open c@locked", "settle d@locked"])
    // It has waited for long enough, its openings too.
    expect(batches().at(-1)).toEqual(["i@locked", "f@locked 5"])
    await committed()
    // None is left, so it is as all others are.
    settle("h@locked")
    expect(commits.at(-1)?.patient).toBe(false)
  })

  test("answers a barrier of an account that is tried again when that is durable, and of another one at once", async () => {
    const { settle, barrier, committed, clock, durable } = ledger()
    settle("first")
    settle("a@busy")
    settle("b@other")
    barrier("all")
    barrier("busy", "busy")
    barrier("other", "other")
    await committed()
    await committed({ locked: ["busy"] })
    expect(durable).toEqual(["settle first", "settle b@other", "other"])
    clock.advance(3)
    await committed()
    expect(durable.slice(3)).toEqual(["settle a@busy", "all", "busy"])
  })

  test("answers a barrier of all when what was set apart is durable, and an account's when its own is", async () => {
    const { settle, barrier, committed, meets, durable } = ledger()
    settle("first")
    settle("a@locked")
    settle("b@other")
    barrier("all, sent before")
    barrier("locked, sent before", "locked")
    barrier("other, sent before", "other")
    await committed()
    await meets(["locked"])
    settle("c@other")
    barrier("other, sent meanwhile", "other")
    await committed({ locked: ["locked"] })
    expect(durable).toEqual(["settle first", "settle b@other", "other, sent before"])
    await committed({}, -2)
    expect(durable.splice(3)).toEqual(["settle c@other", "other, sent meanwhile"])
    barrier("other, sent after", "other")
    barrier("all, sent after")
    expect(durable).toEqual(["settle first", "settle b@other", "other, sent before", "other, sent after"])
    await committed()
    expect(durable.slice(4)).toEqual(["settle a@locked", "all, sent before", "locked, sent before", "all, sent after"])
  })

  test("tries accounts whose rows stay locked in turns, a few at once, and says for how long they have been apart", async () => {
    const { clock, settle, committed, meets, fails, batches, view } = ledger()
    settle("first")
    const names = Array.from({ length: APART_AT_ONCE + 1 }, (_, n) => `account${n}`)
    for (const name of names) settle(`a@${name}`)
    await committed()
    await meets(names)
    await committed({ locked: names })
    const apart = () =>
      batches()
        .slice(5)
        .map(([, settled]) => settled)
    expect(apart()).toEqual(names.slice(0, APART_AT_ONCE).map((name) => `a@${name} 5`))
    clock.advance(700)
    await fails(new RowsLocked("locked"), 5)
    expect(apart().at(-1)).toBe(`a@${names.at(-1)} 5`)
    expect([view("account0").lagMs, view("another").lagMs, view().lagMs]).toEqual([700, 0, 0])
    expect(view().backlog).toBe(names.length)
    await committed({}, 6)
    expect(apart().at(-1)).toBe("a@account0 5")
  })

  test("sets all accounts of a batch apart when rows were locked that nobody can name", async () => {
    const { settle, barrier, committed, fails, batches, commits, durable } = ledger()
    settle("first")
    settle("a@one")
    settle("b@two")
    barrier("after both")
    await committed()
    await fails(new RowsLocked("locked"))
    expect(batches().slice(2)).toEqual([
      ["", "a@one 5"],
      ["", "b@two 5"],
    ])
    expect(commits.slice(2).map(({ patient }) => patient)).toEqual([true, true])
    await committed({}, 3)
    expect(durable).toEqual(["settle first", "settle b@two"])
    await committed({}, 2)
    expect(durable.slice(2)).toEqual(["settle a@one", "after both"])
  })

  test("counts the time that a commit waited for rows that nobody can name", async () => {
    const { clock, settle, committed, fails, view } = ledger()
    settle("first")
    settle("a@one")
    await committed()
    clock.advance(1_500)
    await fails(new RowsLocked("locked"))
    clock.advance(700)
    expect(view("one").lagMs).toBe(2_200)
  })

  test("replaces a settlement that is voided while it is set apart, and reverses one that may have been sent", async () => {
    const { settle, voids, committed, meets, fails, batches } = ledger()
    settle("first")
    settle("a@locked")
    await committed()
    await meets(["locked"])
    await committed({ locked: ["locked"] })
    settle("b@locked")
    voids("a@locked")
    voids("b@locked")
    await fails(new RowsLocked("locked"))
    expect(batches().at(-1)).toEqual(["", "a@locked void 0 billing_error, b@locked void 0 billing_error"])
    await committed()
  })
})
