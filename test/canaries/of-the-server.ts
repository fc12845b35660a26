/** Faults in what only a PostgreSQL server does: locks of sessions, and notices. */
import type { Canary } from "./canary.ts"

const common = { detector: "books on a server" } as const

export const serverCanaries: readonly Canary[] = [
  {
    ...common,
    name: "a process is closed while its lock is held",
    means: "A process that is slow for a while is taken for dead, and what it answers is charged to nobody.",
    file: "src/store/processes.ts",
    find: "where id = ${id} and closed_at is null\n      and case when ${exclusive} then",
    replace: "where id = ${id} and closed_at is null\n      and case when ${exclusive} and false then",
    reason: /"move"|processes/,
  },
  {
    ...common,
    name: "a process is found dead while its lock is held",
    means: "Processes close each other in turn, for as long as two of them live.",
    file: "src/store/processes.ts",
    find: "else pg_try_advisory_xact_lock(${lockKey(sql, sql`id`)})\n    end`",
    replace: "else true\n    end`",
    reason: /"move": "find-dead"/,
  },
  {
    ...common,
    name: "a process whose own lock is free takes others for dead",
    means: "After a server's restart one process closes the others, which are about to take their locks again.",
    file: "src/store/processes.ts",
    find: "when pg_try_advisory_xact_lock(${lockKey(sql, own)}) then false",
    replace: "when false then false",
    reason: /"move": "find-dead"/,
  },
  {
    ...common,
    name: "nobody is told that a process is short of a budget",
    means: "Calls are refused for want of a budget that lies idle in another process.",
    file: "src/store/budget-leases.ts",
    find: "'key ' || encode",
    replace: "'lock ' || encode",
    reason: /key prc_\d short/,
  },
  {
    detector: "servers",
    name: "an old primary is written to",
    means: "After a fail-over two servers take charges, and those of one are lost.",
    file: "src/store/servers.ts",
    find: "if (timeline < highest)",
    replace: "if (timeline < highest - 100)",
    reason: /makes a server an old primary/,
  },
]
