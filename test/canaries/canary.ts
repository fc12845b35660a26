/**
 * A canary is a deliberate fault: one change of one source file, and the suite of ours that must fail by it. What it means is
 * what would happen in production if nobody noticed.
 */
export interface Canary {
  readonly name: string
  readonly means: string
  readonly file: string
  /** Occurs exactly once in the file. */
  readonly find: string
  readonly replace: string
  readonly detector: keyof typeof detectors
  /** What its output must say: the invariant that does not hold, or the test that fails. */
  readonly reason: RegExp
}

/** Arguments for Bun. Each passes without a canary. */
export const detectors = {
  /** Random moves on the product's SQL, beside books in memory. */
  books: ["test", "test/simulation/differential.test.ts"],
  /** The same on a PostgreSQL server, where processes have locks. */
  "books on a server": ["test", "test/simulation/differential.test.ts"],
  /** The whole gateway under virtual time. */
  worlds: ["test/canaries/worlds.ts"],
  restarts: ["test", "test/simulation/simulation.test.ts", "-t", "leave nothing of a budget to nobody"],
  "time zones": ["test", "test/store/running-periods.test.ts"],
  slots: ["test", "test/actors/slots.property.test.ts"],
  windows: ["test", "test/actors/window.property.test.ts"],
  chains: ["test", "test/gateway/candidates.test.ts"],
  keys: ["test", "test/actors/key.test.ts"],
  "bound keys": ["test", "test/http/bound-keys.test.ts", "-t", "reaches no other|is not above it"],
  ledger: ["test", "test/actors/ledger.test.ts"],
  leases: ["test", "test/actors/leased-purse.test.ts"],
  servers: ["test", "test/store/servers.test.ts"],
  traces: ["test", "test/gateway/traces.test.ts", "-t", "holds nothing|hangs"],
  circuits: ["test", "test/actors/circuit.test.ts"],
  pools: ["test", "test/gateway/pools.test.ts", "-t", "a conversation stays|refused with 401"],
  "a collector": ["test", "test/traces/collector.test.ts", "-t", "end of the process"],
  "a backup": ["test", "--path-ignore-patterns=none", "./test/processes/backup-command.test.ts", "-t", "a slow copy"],
  costs: ["test", "test/contract/costs.test.ts", "-t", "are not its own|is a part of its own|are a part of"],
  refunds: ["test", "test/payments/refunds.test.ts"],
  "lost answers": ["test", "test/store/sent-twice.test.ts"],
  "dry runs": ["test", "test/http/dry-run.test.ts", "-t", "nothing is left behind|reads a file"],
  purse: ["test", "test/money/purse.property.test.ts"],
  images: ["test", "test/wire/estimate/media.test.ts"],
  refusals: ["test", "test/wire/backend-error.test.ts"],
  calibration: ["test", "test/gateway/calibration.test.ts"],
} as const

export function planted({ name, file, find, replace }: Canary, source: string): string {
  const [before, after, ...more] = source.split(find)
  if (before === undefined || after === undefined || more.length > 0) {
    throw new Error(`canary ${JSON.stringify(name)}: what it replaces must be in ${file} exactly once`)
  }
  return before + replace + after
}
