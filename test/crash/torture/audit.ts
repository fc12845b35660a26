/**
 * What must hold after whatever happened, as a list of what does not. Money in micro-rupiah.
 */
import type { Sql } from "../../../src/store/database.ts"
import { contradictionsIn } from "../../money/contradictions.ts"
import type { Seen } from "./load.ts"
import { chargeMicro } from "./models.ts"
import { mayBeLost, type Restoration } from "./restoration.ts"

export interface Evidence {
  /** All calls of which a head was seen. */
  readonly seen: readonly Seen[]
  /** How many calls were begun, from the first on. */
  readonly calls: number
  /** When each was acknowledged, in milliseconds. */
  readonly paid: ReadonlyMap<string, number>
  readonly restorations: readonly Restoration[]
  /** The database was in trouble: a stream may have ended without being charged (decisions §3). */
  readonly troubled: boolean
  /** Calls of which the log says that the local disk could not keep them: they may be without a record, not charged. */
  readonly unkept: ReadonlySet<string>
}

interface Row {
  readonly request_id: string
  readonly status: string
  readonly charge_micro: bigint
  readonly absorbed_micro: bigint
}

/** With no gateway running. */
export async function violations(sql: Sql, evidence: Evidence): Promise<string[]> {
  const { seen, calls, paid, restorations, troubled, unkept } = evidence
  const wrong = Object.entries(await contradictionsIn(sql)).map(([claim, rows]) => `not so: ${claim}: ${told(rows)}`)
  const rows = await sql<Row[]>`select request_id, status, charge_micro, absorbed_micro from usage where part = 0`
  const records = new Map(rows.map((row) => [row.request_id, row]))
  for (const call of seen) {
    const record = records.get(call.requestId)
    if (unkept.has(call.requestId) && record === undefined) continue
    const why = mayBeLost(call, restorations, call.told === "answer")
      ? record && objection({ ...call, told: "cut" }, record, troubled)
      : objection(call, record, troubled)
    if (why !== undefined) {
      const { client, ...facts } = call
      wrong.push(`${why}: ${told({ ...facts, record, key: client.customer.keyId })}`)
    }
  }
  const charged = rows.filter(({ status }) => status === "ok").length
  if (charged > calls) wrong.push(`${charged} answers were charged of ${calls} calls`)
  const topUps = await sql<{ id: string }[]>`select id from top_ups where status = 'paid'`
  const credited = new Set(topUps.map(({ id }) => id))
  for (const [id, atMs] of paid) {
    if (credited.has(id) || mayBeLost({ begunMs: atMs, endedMs: atMs }, restorations, true)) continue
    wrong.push(`${id} was paid and is not credited`)
  }
  const leases = await sql`select id, process_id from leases where closed_at is null`
  const budgets = await sql`select key_id, process_id from budget_leases`
  if (leases.length + budgets.length > 0) wrong.push(`leases are left: ${told([...leases, ...budgets])}`)
  const over = await sql`
    select k.id, k.spending_limit_micro, s.spent_micro from api_keys k join key_spend s on s.key_id = k.id
    where k.spending_period = s.period and s.spent_micro > k.spending_limit_micro`
  if (over.length > 0) wrong.push(`a budget is exceeded: ${told([...over])}`)
  return wrong
}

/** What is wrong between a call as its client saw it and its record. */
function objection(call: Seen, record: Row | undefined, troubled: boolean): string | undefined {
  const full = record?.status === "ok" && isPrice(record, call)
  const free = record !== undefined && record.status !== "ok" && record.charge_micro === 0n
  if (call.told === "answer") {
    // The house bears what could not be booked in time: of a stream, or by a process that was taken for dead.
    const borne = troubled && free && record.status === "billing_error"
    if (!full && !borne) return "an answer that ended is not charged once, with its price"
    const cost = call.costRp === null ? undefined : Math.round(Number(call.costRp) * 1_000_000)
    if (cost !== undefined && cost !== Number(record?.charge_micro)) return "X-Cost-Rp is not what was charged"
    return undefined
  }
  if (call.told === "failure") {
    if (record !== undefined && !free) return "a call that was told a failure is charged"
    if (record === undefined && wasForwarded(call)) return "a call that was forwarded has no record"
    return undefined
  }
  return full || free ? undefined : "a call that was cut off is neither charged nor free"
}

/**
 * An answer for which there was not money enough was shorter, or the house bore the rest; that its charge is the price of
 * its tokens is among the contradictions.
 */
function isPrice({ charge_micro, absorbed_micro }: Row, { client, endpoint }: Seen): boolean {
  const price = BigInt(chargeMicro(client.tariff, endpoint))
  if (client.limited) return charge_micro + absorbed_micro > 0n && charge_micro + absorbed_micro <= price
  return charge_micro === price && absorbed_micro === 0n
}

/** A refusal is in the log only (decisions §12.5). 503 `database_unavailable` is told before and after forwarding. */
const wasForwarded = ({ status, code }: Seen): boolean =>
  status === 200 || code === "billing.reconcile_failed" || code === "dependency.upstream_unavailable"

const told = (value: unknown): string =>
  JSON.stringify(value, (_, each: unknown) => (typeof each === "bigint" ? String(each) : each))
