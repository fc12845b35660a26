/** The books, as one process reaches them: each operation is a statement on its way (statements.ts). */
import type { BudgetStatements } from "../../src/store/budget-leases.ts"
import type { CallKeyStatements } from "../../src/store/call-keys.ts"
import type { KeyStatements } from "../../src/store/live-keys.ts"
import type { ProcessStatements } from "../../src/store/processes.ts"
import type { RunStatements } from "../../src/store/runs.ts"
import type { Books } from "./books.ts"
import type { Statements } from "./statements.ts"

export interface RemoteBooks
  extends
    ProcessStatements,
    BudgetStatements,
    KeyStatements,
    RunStatements,
    Pick<
      Books,
      "growLease" | "returnLease" | "returnBudget" | "growBreaker" | "tripBreaker" | "lookBreaker" | "commit"
    > {
  /** A commit of nothing. */
  ping(): Promise<void>
}

/** As `src/store` sends them: those of processes are repeated for longer, a batch is not repeated at all. */
const closing = { retry: true, deadlineMs: 10_000 } as const
const again = { retry: true } as const
const batch = { deadlineMs: 3_000 } as const

export function remoteCallKeys(keys: CallKeyStatements, statements: Statements): CallKeyStatements {
  const run = statements.run.bind(statements)
  return {
    takeCallKey: (claim) => run(`takes the key of ${claim.requestId}`, () => keys.takeCallKey(claim), again),
    readCallKey: (name) => run("reads whose key it is", () => keys.readCallKey(name), again),
    takeCallKeyOver: (claim, from) =>
      run(`takes a key over for ${claim.requestId}`, () => keys.takeCallKeyOver(claim, from), again),
    freeCallKey: (claim) => run(`frees the key of ${claim.requestId}`, () => keys.freeCallKey(claim), again),
  }
}

export function remoteBooks(books: Books, statements: Statements): RemoteBooks {
  const run = statements.run.bind(statements)
  return {
    registerProcess: (id) => run("registers", () => books.registerProcess(id), closing),
    serve: (id) => run("takes calls", () => books.serve(id), closing),
    drain: (id) => run("drains", () => books.drain(id), closing),
    share: (id) => run("reads its share", () => books.share(id), closing),
    findDead: (own, exclusive) => run("looks for the dead", () => books.findDead(own, exclusive), closing),
    fence: (id, exclusive) => run(`fences ${id}`, () => books.fence(id, exclusive), closing),
    returnLeases: (id) => run(`returns the leases of ${id}`, () => books.returnLeases(id), closing),
    returnBudgets: (id) => run(`returns the budgets of ${id}`, () => books.returnBudgets(id), closing),
    recordOpenings: (id) => run(`ends the calls of ${id}`, () => books.recordOpenings(id), closing),
    findKey: (hash) => run("finds a key", () => books.findKey(hash), again),
    readSpent: (keyId, starts) => run("reads what is spent", () => books.readSpent(keyId, starts), again),
    findRun: (runId) => run("finds a run", () => books.findRun(runId), again),
    openRun: (opened) => run(`opens ${opened.runId}`, () => books.openRun(opened), again),
    mayOpenRun: (accountId, nowMs) =>
      run("counts the runs of an account", () => books.mayOpenRun(accountId, nowMs), again),
    growLease: (id, accountId, short, version) =>
      run(`grows its lease on ${accountId} by ${short}`, () => books.growLease(id, accountId, short, version), again),
    returnLease: (leaseId, returned) =>
      run(`returns ${returned} of a lease`, () => books.returnLease(leaseId, returned), again),
    growBudget: (id, of, short, version) =>
      run(`grows its budget of ${of.keyId} by ${short}`, () => books.growBudget(id, of, short, version), again),
    openBudget: (of) => run("opens a period", () => books.openBudget(of), again),
    returnBudget: (id, of, returned) =>
      run(`returns ${returned} of a budget`, () => books.returnBudget(id, of, returned), again),
    growBreaker: (id, purse, short, version) =>
      run(`grows its lease on ${purse} by ${short}`, () => books.growBreaker(id, purse, short, version), again),
    tripBreaker: (purse, least) =>
      run(`pauses ${purse} for want of ${least}`, () => books.tripBreaker(purse, least), again),
    lookBreaker: (purse) => run(`looks at ${purse}`, () => books.lookBreaker(purse), again),
    commit: (id, entries) => {
      const openings = entries.openings.map(({ requestId }) => `opens ${requestId}`)
      const settlements = entries.settlements.map(
        ({ opening, records, voided }) =>
          `${voided ? "voids" : `settles as ${records[0].status} ${records[0].charge}`} ${opening.requestId}`,
      )
      return run(["commits", ...openings, ...settlements].join(", "), () => books.commit(id, entries), batch)
    },
    ping: () => run("asks whether the database is there", async () => {}, batch),
  }
}
