/**
 * A gateway in a process of its own, started by its command line as in production, so that it can be killed. Its database
 * outlives it; the simulator and the clients are in the test's process.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { ModelSeed } from "../../src/catalogue/schema.ts"
import { runtimeSettings } from "../../src/own-process.ts"
import { type SimulatedNotification, signSimulated } from "../../src/payments/provider.ts"
import { type Simulator, startSimulator } from "../../src/simulator/simulator.ts"
import type { Sql } from "../../src/store/database.ts"
import { openEmbedded } from "../../src/store/embedded/open.ts"
import { Servers } from "../../src/store/servers.ts"
import { engineSettings } from "../processes/dev-process.ts"
import { onPostgres, openEmptyDatabase, templateCopy } from "../store/harness.ts"
import { eachLine } from "../lines.ts"
import { plainSeed } from "../model-seed.ts"

export const PAYMENT_SECRET = "a secret of the tests"
const root = join(import.meta.dir, "../..")

type Environment = Readonly<Record<string, string>>

export interface HouseOptions {
  /** A database of the test's own; otherwise one is made, of the kind that the suite runs on. */
  readonly place?: { readonly DATABASE_URL: string } | { readonly DATA_DIR: string }
  /** Variables of every gateway. */
  readonly env?: Environment
  /** Where the simulated backend listens; loopback unless told otherwise. */
  readonly simulatorHost?: string
  /** The built binary; otherwise the gateways are started from source. */
  readonly binary?: string
}

async function ownPlace(stack: AsyncDisposableStack): Promise<Environment> {
  if (onPostgres) return { DATABASE_URL: stack.use(await openEmptyDatabase()).url }
  const dataDir = await templateCopy()
  stack.defer(() => rmSync(dataDir, { recursive: true, force: true }))
  return { DATA_DIR: dataDir }
}

/** What outlives the gateway's process. */
export class House implements AsyncDisposable {
  readonly simulator: Simulator
  readonly #directory: string
  readonly #env: Environment
  readonly #stack: AsyncDisposableStack
  readonly #program: readonly string[]

  private constructor(
    simulator: Simulator,
    directory: string,
    env: Environment,
    stack: AsyncDisposableStack,
    program: readonly string[],
  ) {
    this.simulator = simulator
    this.#directory = directory
    this.#env = env
    this.#stack = stack
    this.#program = program
  }

  static async build(models: readonly ModelSeed[], options: HouseOptions = {}): Promise<House> {
    const stack = new AsyncDisposableStack()
    const simulator = startSimulator({ journal: true, hostname: options.simulatorHost ?? "127.0.0.1" })
    stack.defer(() => simulator.stop())
    const directory = mkdtempSync(join(tmpdir(), "loket-crash-"))
    stack.defer(() => rmSync(directory, { recursive: true, force: true }))
    const providers = [{ id: "simulated", label: "Simulated", base_url: simulator.url, api_key_env: "SIMULATED_KEY" }]
    const file = (name: string, content: object) => {
      writeFileSync(join(directory, name), JSON.stringify(content))
      return join(directory, name)
    }
    const place = options.place ?? (await ownPlace(stack))
    const env = {
      ...engineSettings,
      PATH: process.env["PATH"] ?? "",
      PORT: "0",
      CATALOGUE_FILE: file("catalogue.json", { models }),
      PROVIDERS_FILE: file("providers.json", { providers }),
      SIMULATED_KEY: "backend-secret",
      PAYMENT_SIMULATED_SECRET: PAYMENT_SECRET,
      // Otherwise each start is two: the process replaces itself to set them.
      ...runtimeSettings,
      DATA_DIR: join(directory, "data"),
      ...place,
      ...options.env,
    }
    const program = options.binary === undefined ? ["bun", join(root, "src/main.ts")] : [options.binary]
    return new House(simulator, directory, env, stack, program)
  }

  /** Starts a gateway on what is there, and waits until it listens. */
  async start(env: Environment = {}, inside: readonly string[] = []): Promise<ChildGateway> {
    const gateway = this.spawn(env, inside)
    await gateway.listening
    return gateway
  }

  /** A gateway that has only begun to start; `inside` is a command that becomes the one that follows it. */
  spawn(env: Environment = {}, inside: readonly string[] = []): ChildGateway {
    const child = Bun.spawn([...inside, ...this.#program, "start"], {
      cwd: this.#directory,
      env: { ...this.#env, ...env },
      stdout: "pipe",
      stderr: "pipe",
    })
    return new ChildGateway(child)
  }

  /** A command beside the gateways, such as `backup`. */
  async command(...parameters: readonly string[]): Promise<{ readonly code: number; readonly said: string }> {
    const child = Bun.spawn([...this.#program, ...parameters], {
      cwd: this.#directory,
      env: this.#env,
      stdout: "pipe",
      stderr: "pipe",
    })
    const [code, ...said] = await Promise.all([
      child.exited,
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
    ])
    return { code, said: said.join("") }
  }

  /** Where the embedded database is, and what is kept beside any. */
  get dataDir(): string {
    return this.#env["DATA_DIR"] ?? ""
  }

  /** Where calls are kept that were told a failure while the database was away. */
  get withdrawals(): string {
    return join(this.dataDir, "withdrawals")
  }

  /** The database, while no gateway of the embedded kind has it. `at` is another way to it than the gateways'. */
  async books<T>(work: (sql: Sql) => PromiseLike<T>, at?: string): Promise<T> {
    const { DATA_DIR: dataDir = "", DATABASE_URL: url = at } = this.#env
    const embedded = url === undefined ? await openEmbedded({ dataDir }) : undefined
    const servers = new Servers(embedded?.url ?? at ?? url ?? "")
    try {
      const connection = await servers.connect({ timeoutMs: 10_000, statementTimeoutMs: 0 })
      const found = await work(connection.sql)
      await connection.end()
      return found
    } finally {
      await servers.close()
      await embedded?.close()
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync()
  }
}

export interface Customer {
  readonly accountId: string
  readonly token: string
  readonly keyId: string
  readonly key: string
}

const signedIn = ({ token }: Pick<Customer, "token">) => ({ Authorization: `Bearer ${token}` })

export class ChildGateway {
  /** Resolves with its address; rejects, with what it said, when it ends first. */
  readonly listening: Promise<string>
  /** Resolves when it has said its last word. */
  readonly silent: Promise<unknown>
  /** Lines of its log of level warn and error, and what it wrote to standard error. */
  readonly complaints: string[] = []
  readonly #child: Bun.Subprocess<"ignore", "pipe", "pipe">
  #url = ""

  constructor(child: Bun.Subprocess<"ignore", "pipe", "pipe">) {
    this.#child = child
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    this.listening = promise
    // Whoever kills it while it starts does not wait for it.
    promise.catch(() => {})
    const complain = (line: string) => void this.complaints.push(line)
    const hear = (line: string) => {
      if (/"level":"(warn|error)"/.test(line)) complain(line)
      const url = /"event":"listening","url":"([^"]+)"/.exec(line)?.[1]
      if (url === undefined) return
      this.#url = url
      resolve(url)
    }
    // Both are read on to the end, so that its log never fills a pipe.
    this.silent = Promise.all([eachLine(child.stdout, hear), eachLine(child.stderr, complain)])
    void this.silent.then(() => reject(new Error(`the gateway did not start: ${this.complaints.join("\n")}`)))
  }

  get url(): string {
    return this.#url
  }

  get pid(): number {
    return this.#child.pid
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name)
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL")
    await this.#child.exited
  }

  terminate(): void {
    this.#child.kill("SIGTERM")
  }

  get exited(): Promise<number> {
    return this.#child.exited
  }

  /** SIGTERM, and its exit code. */
  stop(): Promise<number> {
    this.terminate()
    return this.exited
  }

  async customer(amountRp: number, limits: Readonly<Record<string, unknown>> = {}): Promise<Customer> {
    const body = { email: `p${crypto.randomUUID()}@example.com`, password: "correct horse battery" }
    const { session_token: token, account } = (await this.#post("/auth/sign-up", body)) as {
      session_token: string
      account: { id: string }
    }
    if (amountRp > 0) await this.pay(await this.openTopUp({ token }, amountRp), amountRp)
    const { id, key } = (await this.#post("/keys", { name: "test", ...limits }, signedIn({ token }))) as {
      id: string
      key: string
    }
    return { accountId: account.id, token, keyId: id, key }
  }

  async openTopUp(customer: Pick<Customer, "token">, amountRp: number): Promise<string> {
    const { id } = (await this.#post("/top-ups", { amount_rp: amountRp }, signedIn(customer))) as { id: string }
    return id
  }

  /** The provider's notification. Resolves when it was answered 200. */
  async pay(topUpId: string, amountRp: number): Promise<void> {
    await this.#notify({ top_up_id: topUpId, status: "paid", amount_rp: amountRp })
  }

  /** The provider's notification that the payer's bank took all of it back. */
  async takeBack(topUpId: string, amountRp: number, reversalId: string): Promise<void> {
    const back = { back_rp: amountRp, reversal_id: reversalId }
    await this.#notify({ top_up_id: topUpId, status: "chargeback", amount_rp: amountRp, ...back })
  }

  async #notify(notice: SimulatedNotification): Promise<void> {
    const { body, headers } = signSimulated(PAYMENT_SECRET, notice)
    await this.#post("/webhooks/payments/simulated", new TextDecoder().decode(body), headers.toJSON())
  }

  /** Changes the limits of a key. */
  async change({ token, keyId }: Customer, limits: Readonly<Record<string, unknown>>): Promise<void> {
    await this.#post(`/keys/${keyId}`, limits, signedIn({ token }), "PATCH")
  }

  async #post(
    path: string,
    body: unknown,
    headers: Readonly<Record<string, string>> = {},
    method: "POST" | "PATCH" = "POST",
  ): Promise<unknown> {
    const response = await fetch(this.url + path, {
      method,
      headers: { "Content-Type": "application/json", ...headers },
      body: typeof body === "string" ? body : JSON.stringify(body),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`)
    return text.startsWith("{") ? JSON.parse(text) : undefined
  }

  get(path: string, customer?: Customer): Promise<Response> {
    return fetch(this.url + path, customer && { headers: signedIn(customer) })
  }

  async balanceMicro(customer: Customer): Promise<number> {
    const account = (await (await this.get("/account", customer)).json()) as { balance_micro: number }
    return account.balance_micro
  }
}

/** A model of the simulator's provider, with rates that are easy to reckon with. */
export const modelSeed = (
  model: string,
  format: ModelSeed["endpoints"][number],
  script: string,
  rates: Partial<Pick<ModelSeed, "input_micro" | "output_micro" | "max_output_tokens" | "max_concurrency">> = {},
): ModelSeed =>
  plainSeed(model, {
    cache_read_micro: 0,
    cache_write_micro: 0,
    endpoints: [format],
    upstreams: [{ provider: "simulated", format, model: `${model}?${script}` }],
    ...rates,
  })
