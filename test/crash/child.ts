/**
 * A gateway in a process of its own, started by its command line as in production, so that it can be killed. Its database
 * outlives it; the simulator and the clients are in the test's process.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { ModelSeed } from "../../src/catalogue/schema.ts"
import { type Simulator, startSimulator } from "../../src/simulator/simulator.ts"
import type { Sql } from "../../src/store/database.ts"
import { openEmbedded } from "../../src/store/embedded/open.ts"
import { directConnection, onPostgres, openEmptyDatabase, templateCopy } from "../store/harness.ts"

const SECRET = "a secret of the tests"
const root = join(import.meta.dir, "../..")

/** What outlives the gateway's process. */
export class House implements AsyncDisposable {
  readonly simulator: Simulator
  readonly #directory: string
  readonly #env: Record<string, string>
  readonly #stack: AsyncDisposableStack

  private constructor(
    simulator: Simulator,
    directory: string,
    env: Record<string, string>,
    stack: AsyncDisposableStack,
  ) {
    this.simulator = simulator
    this.#directory = directory
    this.#env = env
    this.#stack = stack
  }

  static async build(models: readonly ModelSeed[]): Promise<House> {
    const stack = new AsyncDisposableStack()
    const simulator = startSimulator({ journal: true })
    stack.defer(() => simulator.stop())
    const directory = mkdtempSync(join(tmpdir(), "loket-crash-"))
    stack.defer(() => rmSync(directory, { recursive: true, force: true }))
    const providers = [{ id: "simulated", label: "Simulated", base_url: simulator.url, api_key_env: "SIMULATED_KEY" }]
    const file = (name: string, content: object) => {
      writeFileSync(join(directory, name), JSON.stringify(content))
      return join(directory, name)
    }
    const database = onPostgres ? await openEmptyDatabase() : undefined
    if (database !== undefined) stack.use(database)
    const dataDir = onPostgres ? undefined : await templateCopy()
    if (dataDir !== undefined) stack.defer(() => rmSync(dataDir, { recursive: true, force: true }))
    const env = {
      PATH: process.env["PATH"] ?? "",
      PORT: "0",
      CATALOGUE_FILE: file("catalogue.json", { models }),
      PROVIDERS_FILE: file("providers.json", { providers }),
      SIMULATED_KEY: "backend-secret",
      PAYMENT_SIMULATED_SECRET: SECRET,
      ...(database && { DATABASE_URL: database.url }),
      ...(dataDir && { DATA_DIR: dataDir }),
    }
    return new House(simulator, directory, env, stack)
  }

  /** Starts a gateway on what is there. */
  async start(): Promise<ChildGateway> {
    const child = Bun.spawn(["bun", join(root, "src/main.ts"), "start"], {
      cwd: this.#directory,
      env: this.#env,
      stdout: "pipe",
      stderr: "pipe",
    })
    const url = await listening(child.stdout, child.stderr)
    return new ChildGateway(url, child)
  }

  /** The database, while no gateway of the embedded kind has it. */
  async books<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    const dataDir = this.#env["DATA_DIR"]
    const embedded = dataDir === undefined ? undefined : await openEmbedded({ dataDir })
    const connection = directConnection(embedded?.url ?? this.#env["DATABASE_URL"] ?? "")
    try {
      return await work(connection.sql)
    } finally {
      await connection.end()
      await embedded?.close()
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync()
  }
}

export interface Customer {
  readonly token: string
  readonly key: string
}

export class ChildGateway {
  readonly url: string
  readonly #child: Bun.Subprocess

  constructor(url: string, child: Bun.Subprocess) {
    this.url = url
    this.#child = child
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

  async customer(amountRp: number): Promise<Customer> {
    const body = { email: `p${crypto.randomUUID()}@example.com`, password: "correct horse battery" }
    const { session_token: token } = (await this.#post("/auth/sign-up", body)) as { session_token: string }
    const signedIn = { Authorization: `Bearer ${token}` }
    const { id } = (await this.#post("/top-ups", { amount_rp: amountRp }, signedIn)) as { id: string }
    const paid = JSON.stringify({ top_up_id: id, status: "paid", amount_rp: amountRp })
    const signature = new Bun.CryptoHasher("sha256", SECRET).update(paid).digest("hex")
    await this.#post("/webhooks/payments/simulated", paid, { "X-Signature": signature })
    const { key } = (await this.#post("/keys", { name: "test" }, signedIn)) as { key: string }
    return { token, key }
  }

  async #post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<unknown> {
    const response = await fetch(this.url + path, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...headers },
      body: typeof body === "string" ? body : JSON.stringify(body),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`)
    return text.startsWith("{") ? JSON.parse(text) : undefined
  }

  get(path: string, customer?: Customer): Promise<Response> {
    return fetch(this.url + path, customer && { headers: { Authorization: `Bearer ${customer.token}` } })
  }

  async balanceMicro(customer: Customer): Promise<number> {
    const account = (await (await this.get("/account", customer)).json()) as { balance_micro: number }
    return account.balance_micro
  }
}

async function listening(stdout: ReadableStream<Uint8Array>, stderr: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder()
  const said = new Response(stderr).text()
  let text = ""
  const reader = stdout.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) throw new Error(`the gateway did not start: ${text}${await said}`)
    text += decoder.decode(value, { stream: true })
    const url = /"url":"([^"]+)"/.exec(text)?.[1]
    if (url === undefined) continue
    // Read on, so that its log never fills the pipe.
    void (async () => {
      while (!(await reader.read()).done);
    })()
    return url
  }
}

/** A model of the simulator's provider, with rates that are easy to reckon with. */
export const modelSeed = (
  model: string,
  format: ModelSeed["endpoints"][number],
  script: string,
  rates: Partial<Pick<ModelSeed, "input_micro" | "output_micro" | "max_output_tokens">> = {},
): ModelSeed => ({
  model,
  display_name: model,
  tier: "standard",
  provider: "Simulated",
  modality: "text",
  supports_vision: false,
  supports_tools: true,
  input_micro: 1_000,
  output_micro: 5_000,
  cache_read_micro: 0,
  cache_write_micro: 0,
  context_window: null,
  max_output_tokens: 8_192,
  endpoints: [format],
  upstream: { provider: "simulated", format, model: `${model}?${script}` },
  max_concurrency: 64,
  fallback: [],
  strip: [],
  unsupported: [],
  features: [],
  ...rates,
})
