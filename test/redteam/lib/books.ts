/** In the end: what each attacker paid and what the house absorbed, against what the backend counted. */
import type { Arena, Model } from "./arena.ts"
import { rp } from "./attacker.ts"
import type { Heard } from "./backend.ts"
import type { Finding } from "./row.ts"

interface Sum {
  readonly account_id: string
  readonly charged: bigint
  readonly absorbed: bigint
}

interface Health {
  readonly absorbed?: {
    readonly sum_micro: number
    readonly accounts: readonly { readonly account_id: string; readonly absorbed_micro: number }[]
  }
}

/** What an operator is shown; undefined where the books cannot be reached beside the gateway. */
async function shown(arena: Arena): Promise<Health["absorbed"]> {
  const token = await arena.operator()
  if (token === undefined) return undefined
  const response = await fetch(`${arena.url}/operator/billing-health`, {
    headers: { Authorization: `Bearer ${token}` },
  })
  return ((await response.json()) as Health).absorbed
}

export async function sums(arena: Arena): Promise<Finding[]> {
  const health = await shown(arena)
  const code = await arena.gateway.stop()
  const rows = await arena.place.books(
    (sql) => sql<Sum[]>`
      select account_id, sum(charge_micro)::bigint as charged, sum(absorbed_micro)::bigint as absorbed
      from usage group by account_id`,
  )
  const found = new Map(rows.map((row) => [row.account_id, row]))
  const byName = new Map([...arena.models.values()].map((model) => [model.upstream.model, model]))
  let counted = 0n
  let paid = 0n
  let absorbed = 0n
  const wrong: string[] = []
  for (const { accountId } of arena.attackers) {
    const mine = arena.backend.heard.filter(({ owner }) => owner === accountId)
    const worth = mine.reduce((sum, heard) => sum + worthOf(heard, byName), 0n)
    const booked = found.get(accountId) ?? { charged: 0n, absorbed: 0n }
    counted += worth
    paid += booked.charged
    absorbed += booked.absorbed
    if (booked.charged + booked.absorbed !== worth) {
      wrong.push(`${accountId}: counted ${rp(worth)}, paid ${rp(booked.charged)}, absorbed ${rp(booked.absorbed)}`)
    }
  }
  const listed = health?.accounts ?? []
  const strangers = listed.filter((each) => found.get(each.account_id)?.absorbed !== BigInt(each.absorbed_micro))
  const operator: Finding[] =
    arena.place.url === undefined
      ? []
      : [
          {
            tried: "GET /operator/billing-health",
            seen:
              health === undefined
                ? "what was absorbed is not listed"
                : `${rp(health.sum_micro)} absorbed, ${listed.length} accounts${strangers.length > 0 ? `, ${strangers.length} with another sum than their records` : ""}`,
            held: health !== undefined && BigInt(health.sum_micro) === absorbed && strangers.length === 0,
          },
        ]
  const reconciled = await arena.command("reconcile")
  return [
    { tried: "the gateway ends in order", seen: `exit code ${code}`, held: code === 0 },
    {
      tried: `${arena.attackers.length} attackers' books`,
      seen: `counted ${rp(counted)}, paid ${rp(paid)}, absorbed ${rp(absorbed)}${wrong.length > 0 ? `; ${wrong.length} do not agree: ${wrong.slice(0, 5).join("; ")}` : ""}`,
      held: wrong.length === 0,
    },
    ...operator,
    {
      tried: "bun run reconcile",
      seen: reconciled.said.trim().split("\n").at(-1) ?? "",
      held: reconciled.code === 0,
    },
  ]
}

function worthOf({ told, model }: Heard, byName: ReadonlyMap<string, Model>): bigint {
  const rates = byName.get(model)
  if (told === undefined || rates === undefined) return 0n
  const { input, output, cacheRead = 0, cacheWrite = 0 } = told
  return (
    BigInt(input) * BigInt(rates.input_micro) +
    BigInt(output) * BigInt(rates.output_micro) +
    BigInt(cacheRead) * BigInt(rates.cache_read_micro) +
    BigInt(cacheWrite) * BigInt(rates.cache_write_micro)
  )
}
