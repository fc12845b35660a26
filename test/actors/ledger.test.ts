import { describe, expect, test } from "bun:test"
import {
  type Batch,
  Ledger,
  type LedgerCommand,
  type LedgerView,
  type Opening,
  type Settlement,
} from "../../actors/ledger.ts"
import { VirtualClock } from "../../actors/kernel/clock.ts"
import { micro, zero } from "../../actors/money/micro.ts"
import { noTokens } from "../../actors/money/tokens.ts"
import { flush } from "../kernel/world.ts"

const opening = (requestId: string): Opening => ({
  requestId,
  accountId: "acc",
  keyId: "key",
  leaseId: 1n,
  model: "m",
  endpoint: "chat",
  streamed: false,
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
    },
  ],
  voided: false,
})

/** A ledger whose commits end when the test says so. */
function ledger() {
  const clock = new VirtualClock()
  const commits: { readonly batch: Batch; readonly end: PromiseWithResolvers<readonly string[]> }[] = []
  const durable: string[] = []
  const failures: unknown[] = []
  const behaviour: Ledger = new Ledger({
    clock,
    self: (command: LedgerCommand) => behaviour.receive(command),
    store: {
      commit(batch) {
        const end = Promise.withResolvers<readonly string[]>()
        commits.push({ batch, end })
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
    settle: (id: string) =>
      behaviour.receive({ type: "settle", settlement: settlement(id), reply: told(`settle ${id}`) }),
    voids: (id: string) => behaviour.receive({ type: "void", settlement: settlement(id) }),
    barrier: (name: string) => behaviour.receive({ type: "barrier", reply: told(name) }),
    committed: async (fenced: readonly string[] = []) => {
      commits.at(-1)?.end.resolve(fenced)
      await flush()
    },
    fails: async () => {
      commits.at(-1)?.end.reject(new Error("cut"))
      await flush()
    },
    view: (): LedgerView => {
      const views: LedgerView[] = []
      behaviour.receive({ type: "view", reply: (view) => views.push(view) })
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
  test("commits the first entry at once, and what comes meanwhile in one batch after it", async () => {
    const { open, settle, committed, batches, durable } = ledger()
    open("a")
    for (const id of ["b", "c"]) open(id)
    settle("a")
    expect(batches()).toEqual([["a", ""]])
    expect(durable).toEqual([])
    await committed()
    expect(durable).toEqual(["open a"])
    await committed()
    expect(batches()).toEqual([
      ["a", ""],
      ["b c", "a 5"],
    ])
    expect(durable).toEqual(["open a", "open b", "open c", "settle a"])
  })

  test("tells whose charge the house bears, because the lease was closed", async () => {
    const { settle, committed, durable } = ledger()
    settle("a")
    settle("b")
    settle("c")
    await committed()
    await committed(["c"])
    expect(durable).toEqual(["settle a", "settle b", "settle c fenced"])
  })

  test("commits no more than a thousand entries at once, in order", async () => {
    const { open, committed, commits, view } = ledger()
    for (let index = 0; index <= 2_500; index++) open(`r${index}`)
    await committed()
    await committed()
    await committed()
    expect(commits.map(({ batch }) => batch.openings.length)).toEqual([1, 1_000, 1_000, 500])
    const order = commits.flatMap(({ batch }) => batch.openings.map(({ requestId }) => requestId))
    expect(order).toEqual(Array.from({ length: 2_501 }, (_, index) => `r${index}`))
    expect(view().backlog).toBe(500)
  })

  test("sends a batch whose outcome is unknown again, the same and ever more slowly, and tells nobody until it is known", async () => {
    const { clock, open, settle, fails, committed, batches, durable, failures } = ledger()
    open("a")
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
  })

  test("does not write an opening whose settlement is in the same batch, and tells both durable", async () => {
    const { open, settle, committed, batches, durable } = ledger()
    open("first")
    open("a")
    settle("a")
    await committed()
    await committed()
    expect(batches().at(-1)).toEqual(["", "a 5"])
    expect(durable).toEqual(["open first", "open a", "settle a"])
  })

  test("replaces a settlement that is voided before it was sent", async () => {
    const { open, settle, voids, committed, batches } = ledger()
    open("first")
    settle("a")
    voids("a")
    await committed()
    expect(batches().at(-1)).toEqual(["", "a void 0 billing_error"])
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
})
