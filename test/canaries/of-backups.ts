/** Faults in the copying of a database that is written to. */
import type { Canary } from "./canary.ts"

const backup = { file: "src/store/embedded/open.ts", detector: "a backup" } as const

export const backupCanaries: readonly Canary[] = [
  {
    ...backup,
    name: "what was written while a backup was made is not copied again",
    means: "A backup that nobody can start, found out on the day when it is needed.",
    find: "await alone(address, () => copy.round())",
    replace: "await alone(address, async () => {})",
    reason: /does not start|expect\(received\)/,
  },
  {
    ...backup,
    name: "nobody waits for the last round of a backup",
    means: "A backup in which one file is of a moment before another: charges without their balances.",
    find: 'await say("begin")',
    replace: 'await say("select 1")',
    reason: /does not start|expect\(received\)/,
  },
]
