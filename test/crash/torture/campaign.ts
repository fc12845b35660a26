/**
 * Rounds of load in which gateways are killed and their database is broken; after each, all must be as if nothing had
 * happened to the books. The same seed gives the same plan, not the same run: processes and the kernel have a will of
 * their own.
 */
import type { Random } from "../../../actors/kernel/clock.ts"
import { seededRandom } from "../../kernel/virtual-time.ts"
import { hello, paths } from "../asking.ts"
import type { ChildGateway, Customer, House } from "../child.ts"
import { violations } from "./audit.ts"
import { type Client, type Seen, startLoad } from "./load.ts"
import { PROBE } from "./models.ts"
import { startPayments, TOP_UP_RP } from "./payments.ts"
import type { Restoration } from "./restoration.ts"
import type { Slot } from "./slot.ts"

/** The round's kills are over before the last of them. */
const MAX_TRIES = 10

/** A fault of the database; false when it did not come to it. */
export interface Fault {
  readonly name: string
  readonly strike: () => Promise<boolean>
}

export interface CampaignTerms {
  readonly seed: number
  readonly house: House
  readonly slots: readonly Slot[]
  readonly rounds: number
  readonly kills: number
  /** In the order in which they are to strike, spread over the rounds. */
  readonly faults: readonly Fault[]
  /** Those that a fault has come to. */
  readonly restorations?: readonly Restoration[]
  /** After a round: nothing is broken any more. */
  readonly heal: () => Promise<void>
  readonly say: (line: string) => void
}

export interface Figures {
  kills: number
  /** By class: how often it struck. */
  readonly faults: Map<string, number>
  calls: number
  answers: number
  topUps: number
  readonly violations: string[]
}

const CALLERS = 10
const RICH_RP = 100_000_000
const BUDGET_MICRO = 10_000_000
const START_LIMIT_MS = 10_000
const SPENDABLE_WITHIN_MS = 30_000
/** Nothing that a supervisor sees may have been a bug of ours. */
const BUGS = /"event":"(actor crashed|call crashed|unhandled)"|panic|Segmentation/
const UNKEPT = /"event":"withdrawals not kept","request_ids":"([^"]*)"/
const DATABASE_LEFT = /another process took this one for dead|the embedded database in \S+ failed/i

export class Campaign {
  readonly figures: Figures = { kills: 0, faults: new Map(), calls: 0, answers: 0, topUps: 0, violations: [] }
  readonly #terms: CampaignTerms
  readonly #random: Random
  readonly #seen: Seen[] = []
  readonly #paid = new Map<string, number>()
  readonly #unkept = new Set<string>()
  #clients: readonly Client[] = []
  #troubled = false

  constructor(terms: CampaignTerms) {
    this.#terms = terms
    this.#random = seededRandom(terms.seed)
  }

  async run(): Promise<Figures> {
    const { slots, rounds, kills, faults, say } = this.#terms
    for (const slot of slots) slot.start()
    this.#clients = await this.#signUp(await slots[0]!.listening())
    for (let round = 0; round < rounds; round++) {
      const share = <T>(all: readonly T[]) =>
        all.slice(Math.floor((all.length * round) / rounds), Math.floor((all.length * (round + 1)) / rounds))
      const since = performance.now()
      const before = { kills: this.#kills(), seen: this.#seen.length }
      await this.#round(share(Array.from({ length: kills })).length, share(faults))
      const found = await this.#aftermath(this.#seen.slice(round === rounds - 1 ? 0 : before.seen))
      this.figures.violations.push(...found)
      say(
        `round ${round + 1} of ${rounds}: ${this.#kills() - before.kills} kills, ` +
          `${
            share(faults)
              .map(({ name }) => name)
              .join(", ") || "no fault"
          }, ${this.#seen.length - before.seen} calls told, ` +
          `${found.length} violations, ${Math.round(performance.now() - since)} ms`,
      )
      for (const line of found) say(`  ${line}`)
    }
    for (const slot of slots) await slot.stop()
    this.figures.kills = this.#kills()
    this.figures.answers = this.#seen.filter(({ told }) => told === "answer").length
    this.figures.topUps = this.#paid.size
    return this.figures
  }

  async #signUp(gateway: ChildGateway): Promise<Client[]> {
    const budget = { spending_limit_micro: BUDGET_MICRO, spending_period: "total" }
    return [
      { customer: await gateway.customer(RICH_RP), tariff: "cheap", limited: false },
      { customer: await gateway.customer(RICH_RP, budget), tariff: "cheap", limited: true },
      // Can pay for a hundred answers, and tops up.
      { customer: await gateway.customer(TOP_UP_RP), tariff: "dear", limited: true },
    ]
  }

  async #round(kills: number, faults: readonly Fault[]): Promise<void> {
    const { slots } = this.#terms
    const random = this.#random
    const over = new AbortController()
    const common = { slots, random, over: over.signal }
    const load = startLoad({ ...common, clients: this.#clients, callers: CALLERS })
    const restorations = this.#restorations
    const payments = startPayments({ ...common, restorations, customer: this.#clients[2]!.customer })
    const deeds: (Fault | "kill")[] = [...faults]
    for (let n = 0; n < kills; n++) deeds.splice(Math.floor(random() * (deeds.length + 1)), 0, "kill")
    // Half of the kills that come after a fault come while it lasts.
    let under: Promise<void> = Promise.resolve()
    for (const deed of deeds) {
      if (deed === "kill") {
        const slot = slots[Math.floor(random() * slots.length)]!
        if (random() < 0.5) await under
        // Most are killed at work, some while they start.
        if (random() < 0.8) await Promise.race([slot.listening(), Bun.sleep(START_LIMIT_MS)])
        await Bun.sleep(50 + random() * 750)
        await slot.kill()
      } else {
        await Bun.sleep(50 + random() * 500)
        await under
        this.#troubled = true
        under = this.#strike(deed)
      }
    }
    await under
    await Bun.sleep(100 + random() * 300)
    over.abort()
    await this.#terms.heal()
    await Promise.all([load.done, payments.done])
    this.figures.calls += load.calls
    this.#seen.push(...load.seen)
    for (const [id, atMs] of payments.paid) this.#paid.set(id, atMs)
  }

  /** What did not come to it, as an answer that nobody gave in time to be lost or a backup whose gateway was killed, is tried again. */
  async #strike({ name, strike }: Fault): Promise<void> {
    const { faults } = this.figures
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      if (!(await strike())) continue
      faults.set(name, (faults.get(name) ?? 0) + 1)
      return
    }
  }

  /** A clean stop, the books, and a new start on which everything can be spent. */
  async #aftermath(seen: readonly Seen[]): Promise<string[]> {
    const { slots, house } = this.#terms
    const found: string[] = []
    const codes = await Promise.all(slots.map((slot) => slot.stop()))
    // Whoever died last is closed by whoever starts next.
    await (await house.start()).stop()
    for (const code of codes) if (code !== 0) found.push(`a gateway ended with ${code} after SIGTERM`)
    for (const slot of slots) {
      for (const line of slot.complaints.splice(0)) {
        const ids = UNKEPT.exec(line)?.[1]
        for (const id of ids?.split(" ") ?? []) this.#unkept.add(id)
        if (BUGS.test(line) && !DATABASE_LEFT.test(line)) found.push(`complained: ${line}`)
      }
    }
    const facts = { paid: this.#paid, restorations: this.#restorations, troubled: this.#troubled, unkept: this.#unkept }
    const evidence = { seen, calls: this.figures.calls, ...facts }
    found.push(...(await house.books((sql) => violations(sql, evidence))))
    for (const slot of slots) slot.start()
    const gateway = await slots[0]!.listening()
    for (const { customer, tariff } of this.#clients) {
      if (customer === this.#clients[1]!.customer) await this.#raiseBudget(gateway, customer)
      else if (!(await this.#allIsSpendable(gateway, customer))) found.push(`the ${tariff} customer cannot spend all`)
    }
    return found
  }

  /** Half of what is available is held at most, at 1,000 micro for a token; that is what the backend is asked for. */
  async #allIsSpendable(gateway: ChildGateway, customer: Customer): Promise<boolean> {
    const { simulator } = this.#terms.house
    const until = performance.now() + SPENDABLE_WITHIN_MS
    while (performance.now() < until) {
      const balance = await gateway.balanceMicro(customer)
      if (balance < 100_000) return true
      simulator.reset()
      const response = await fetch(gateway.url + paths.chat, {
        method: "POST",
        headers: { Authorization: `Bearer ${customer.key}` },
        body: JSON.stringify({ model: PROBE, messages: hello }),
      })
      await response.text()
      const asked = simulator.calls[0]?.body?.["max_tokens"]
      if (asked === Math.min(2 ** 31 - 1, Math.floor(balance / 2_000))) return true
      await Bun.sleep(100)
    }
    return false
  }

  /** So that it is spent to its end, and can be spent again. */
  async #raiseBudget(gateway: ChildGateway, customer: Customer): Promise<void> {
    const usage = (await (await gateway.get("/keys", customer)).json()) as { data: { spent_micro?: number }[] }
    const spent = usage.data[0]?.spent_micro ?? 0
    await gateway.change(customer, { spending_limit_micro: spent + BUDGET_MICRO, spending_period: "total" })
  }

  get #restorations(): readonly Restoration[] {
    return this.#terms.restorations ?? []
  }

  #kills(): number {
    return this.#terms.slots.reduce((sum, slot) => sum + slot.kills, 0)
  }
}
