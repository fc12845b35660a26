/**
 * A whole gateway on a port, on a database of its own, with the simulator behind it: what the contract is tested
 * against. Nothing in it is replaced; a test makes models whose backend is scripted, people, and keys, and calls. With
 * LOKET_BINARY it is a process of its own (binary.ts).
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { readConfig } from "../../src/config.ts"
import type { CatalogueFile, CostSeed, ModelSeed } from "../../src/catalogue/schema.ts"
import { type Provider, soleCredential } from "../../src/catalogue/model.ts"
import type { Endpoint } from "../../src/language/request.ts"
import { readLegalTexts } from "../../src/legal/texts.ts"
import { createLog } from "../../src/log.ts"
import type { ServerOptions } from "../../src/server/gateway.ts"
import { type Server, startServer } from "../../src/server/server.ts"
import { type Simulator, startSimulator } from "../../src/simulator/simulator.ts"
import { seedCatalogue } from "../../src/store/catalogue.ts"
import type { Sql } from "../../src/store/database.ts"
import type { Backend } from "../../src/upstream/providers.ts"
import { onPostgres, openTestDatabase } from "../store/harness.ts"
import { plainSeed } from "../model-seed.ts"
import { binary, startBinary } from "./binary.ts"

const PAYMENT_SECRET = "a secret of the tests"

export interface GatewayOptions {
  /** Variables of the configuration. */
  readonly env?: Readonly<Record<string, string>>
  /** Waits that no variable sets. */
  readonly limits?: ServerOptions["limits"]
  readonly redisWaits?: ServerOptions["redisWaits"]
  /** Told of each line of its log, from level info on; not by a binary. */
  readonly logged?: (line: string) => void
  /** Providers beside `simulated`; one without a key stays unconfigured. */
  readonly backends?: readonly Backend[]
  /** For tests that put a proxy between the gateway and its database. */
  readonly databaseUrl?: (url: string) => string | Promise<string>
}

/** A model to make: its format, how its backend behaves, and whatever else differs from a plain one. */
export interface ModelWish extends Partial<ModelSeed> {
  readonly format: Endpoint
  /** A script of the simulator: "ttft=100&fault=status&status=503". */
  readonly script?: string
  /** Another provider than the simulator. */
  readonly provider?: string
  /** What its backend bills; left out, that is not known. */
  readonly cost?: CostSeed
}

export interface Person {
  readonly accountId: string
  readonly token: string
}

/** Headers by name, so that more can be added. */
export type Init = Omit<RequestInit, "headers"> & { readonly headers?: Readonly<Record<string, string>> }

export interface TestGateway extends AsyncDisposable {
  readonly url: string
  /** Undefined where the gateway runs in this process. */
  readonly pid: number | undefined
  /** Throws where the gateway is a process of its own. */
  readonly server: Server
  readonly simulator: Simulator
  readonly sql: Sql
  /** Log lines of level warn and error. */
  readonly complaints: string[]
  /** What was written into the catalogue's tables is in force when it resolves. */
  refreshCatalogue(): Promise<void>
  freeze(person: Person, reason: string): Promise<void>
  /** In order, as at SIGTERM. */
  stop(): Promise<void>
  /** Makes a model and returns its id. */
  model(wish: ModelWish): Promise<string>
  /** Signs somebody up, with so much money. */
  person(balanceRp?: number): Promise<Person>
  topUp(person: Person, amountRp: number): Promise<void>
  /** Makes a key and returns it whole. */
  key(
    person: Person,
    limits?: Readonly<Record<string, unknown>>,
  ): Promise<{ readonly id: string; readonly key: string }>
  /** A call of the dashboard's API. */
  dashboard(person: Person, path: string, init?: Init): Promise<Response>
  /** POST with a key. A string body is sent as it is. */
  post(path: string, key: string, body: unknown, init?: Init): Promise<Response>
  /** The final usage record, once it is there. */
  usage(person: Person, requestId: string): Promise<Record<string, unknown>>
  balance(person: Person): Promise<{ readonly balance_micro: number; readonly held_micro: number }>
}

/** A provider as it is configured with the first of its credentials. */
export const backendOf = (provider: Provider, apiKey: string, signing?: Backend["signing"]): Backend => ({
  provider,
  credential: provider.credentials[0],
  apiKey,
  signing,
})

/** The model that is there from the start. */
const PLAIN = "plain"

let models = 0

/** A body as it is posted; text is sent as it stands. */
const json = (body: unknown): Init => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: typeof body === "string" ? body : JSON.stringify(body),
})

/** What differs between a gateway in this process and a binary. */
interface Running extends Pick<TestGateway, "url" | "pid" | "server" | "sql" | "refreshCatalogue" | "freeze" | "stop"> {
  /** `sql` works again after `stop`, with which the database may have ended. */
  readonly reopen: () => Promise<void>
  readonly clearAway: () => Promise<void>
}

export async function startTestGateway(options: GatewayOptions = {}): Promise<TestGateway> {
  const simulator = startSimulator()
  const provider: Provider = {
    id: "simulated",
    label: "Simulated",
    baseUrl: simulator.url,
    credentials: [soleCredential("X")],
    headers: {},
  }
  const backends = [backendOf(provider, "backend-secret"), ...(options.backends ?? [])]
  const complaints: string[] = []
  const running =
    binary === undefined
      ? await startHere(options, backends, complaints)
      : await startThere(binary, options, backends, complaints)

  const { url, pid } = running
  const gateway: TestGateway = {
    url,
    pid,
    get server() {
      return running.server
    },
    simulator,
    get sql() {
      return running.sql
    },
    complaints,
    refreshCatalogue: running.refreshCatalogue,
    freeze: running.freeze,
    async stop() {
      await running.stop()
      await running.reopen()
    },
    async model(wish) {
      const seed = plainModel({ model: `${wish.format}-${++models}`, ...wish })
      const file: CatalogueFile = { models: [seed], aliases: [] }
      await seedCatalogue(running.sql, file, new Date())
      await running.refreshCatalogue()
      return seed.model
    },
    async person(balanceRp = 0) {
      const body = { email: `p${crypto.randomUUID()}@example.com`, password: "correct horse battery" }
      const response = await fetch(`${url}/auth/sign-up`, json(body))
      const { account, session_token: token } = (await response.json()) as {
        account: { id: string }
        session_token: string
      }
      const person = { accountId: account.id, token }
      if (balanceRp > 0) await gateway.topUp(person, balanceRp)
      return person
    },
    async topUp(person, amountRp) {
      const opened = await gateway.dashboard(person, "/top-ups", json({ amount_rp: amountRp }))
      const { id } = (await opened.json()) as { id: string }
      const body = JSON.stringify({ top_up_id: id, status: "paid", amount_rp: amountRp })
      const signature = new Bun.CryptoHasher("sha256", PAYMENT_SECRET).update(body).digest("hex")
      const paid = await fetch(`${url}/webhooks/payments/simulated`, {
        method: "POST",
        headers: { "X-Signature": signature },
        body,
      })
      if (!paid.ok) throw new Error(`top-up: ${await paid.text()}`)
    },
    async key(person, limits = {}) {
      const response = await gateway.dashboard(person, "/keys", json({ name: "test", ...limits }))
      if (response.status !== 201) throw new Error(`key: ${await response.text()}`)
      return (await response.json()) as { id: string; key: string }
    },
    dashboard: (person, path, init = {}) =>
      fetch(url + path, { ...init, headers: { ...init.headers, Authorization: `Bearer ${person.token}` } }),
    post(path, key, body, init = {}) {
      const sent = json(body)
      return fetch(url + path, {
        ...sent,
        ...init,
        headers: { ...sent.headers, Authorization: `Bearer ${key}`, ...init.headers },
      })
    },
    async usage(person, requestId) {
      for (const until = performance.now() + 60_000; ;) {
        const response = await gateway.dashboard(person, `/usage/${requestId}`)
        const body = (await response.json()) as Record<string, unknown>
        if (response.ok) return body
        if (performance.now() > until) throw new Error(`no usage of ${requestId}: ${JSON.stringify(body)}`)
        await Bun.sleep(20)
      }
    },
    async balance(person) {
      const response = await gateway.dashboard(person, "/account")
      return (await response.json()) as { balance_micro: number; held_micro: number }
    },
    async [Symbol.asyncDispose]() {
      await running.stop()
      await simulator.stop()
      await running.clearAway()
    },
  }
  return gateway
}

const catalogueFile: CatalogueFile = { models: [plainModel({ format: "chat", model: PLAIN })], aliases: [] }

async function startHere(
  options: GatewayOptions,
  backends: readonly Backend[],
  complaints: string[],
): Promise<Running> {
  const database = await openTestDatabase()
  const dataDir = mkdtempSync(join(tmpdir(), "loket-data-"))
  const config = readConfig({
    PORT: "0",
    LOG_LEVEL: "warn",
    // What it keeps on disk is read by whoever starts on the same directory.
    DATA_DIR: dataDir,
    // The embedded database has one session: each connection more is only another that parses and plans the same statements.
    // Behind a proxy that holds statements back the others need connections too.
    DATABASE_CONNECTIONS: onPostgres || options.databaseUrl !== undefined ? "10" : "2",
    DATABASE_URL: (await options.databaseUrl?.(database.url)) ?? database.url,
    PAYMENT_SIMULATED_SECRET: PAYMENT_SECRET,
    // Its own tests ask for it.
    OPERATOR_SECOND_FACTOR: "false",
    ...options.env,
  })
  if (Array.isArray(config)) throw new Error(config.join("\n"))
  const legal = await readLegalTexts(config.LEGAL_TEXTS_DIR)
  if (Array.isArray(legal)) throw new Error(legal.join("\n"))
  const server = await startServer({
    config,
    legal,
    log: createLog(options.logged === undefined ? "warn" : "info", (line, level) => {
      options.logged?.(line)
      if (level === "warn" || level === "error") complaints.push(line)
    }),
    catalogueFile,
    backends: Map.groupBy(backends, (backend) => backend.provider.id),
    ownSessions: onPostgres,
    // As little as argon2id takes; what it costs in truth is in test/accounts/password.test.ts.
    passwordCost: { memoryKiB: 8, passes: 1 },
    fatal: (reason) => complaints.push(`fatal: ${reason}`),
    ...(options.limits && { limits: options.limits }),
    redisWaits: options.redisWaits,
  })
  return {
    url: server.url,
    pid: undefined,
    server,
    sql: database.sql,
    refreshCatalogue: () => server.refreshCatalogue(),
    freeze: async ({ accountId }, reason) => void (await server.accounts.freeze(accountId, reason)),
    stop: () => server.stop(),
    reopen: async () => {},
    async clearAway() {
      await database.close()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

async function startThere(
  program: string,
  options: GatewayOptions,
  backends: readonly Backend[],
  complaints: string[],
): Promise<Running> {
  if (options.limits !== undefined) throw new Error("a binary takes no limits that no variable sets: ask `hasNoInside`")
  const started = await startBinary(program, {
    env: { PAYMENT_SIMULATED_SECRET: PAYMENT_SECRET, OPERATOR_SECOND_FACTOR: "false", ...options.env },
    catalogueFile,
    backends,
    databaseUrl: options.databaseUrl,
    heard: (line) => {
      if (!/"level":"(debug|info)"/.test(line)) complaints.push(line)
    },
  })
  let changes = 0
  let operator: Promise<string> | undefined
  let stopped: Promise<void> | undefined
  return {
    url: started.url,
    pid: started.pid,
    get server(): Server {
      throw new Error("the gateway is a process of its own: ask `hasNoInside`")
    },
    get sql() {
      return started.sql()
    },
    // An operator's change of a model is answered when the catalogue has been read again.
    async refreshCatalogue() {
      const token = await (operator ??= makeOperator(started.url, started.sql()))
      const response = await fetch(`${started.url}/operator/models/${PLAIN}`, {
        ...json({ display_name: `plain ${++changes}` }),
        method: "PATCH",
        headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
      })
      if (!response.ok) throw new Error(`the catalogue was not read: ${await response.text()}`)
    },
    freeze: ({ accountId }, reason) => started.run("account", "freeze", accountId, "--reason", reason),
    stop: () => (stopped ??= started.stop()),
    reopen: () => started.reopen(),
    clearAway: () => started.close(),
  }
}

/** Who can have the catalogue read; the token of a session. */
async function makeOperator(url: string, sql: Sql): Promise<string> {
  const body = { email: "operator@example.com", password: "correct horse battery" }
  const response = await fetch(`${url}/auth/sign-up`, json(body))
  const { account, session_token: token } = (await response.json()) as {
    account: { id: string }
    session_token: string
  }
  await sql`update accounts set role = 'operator' where id = ${account.id}`
  return token
}

/** Rates that are easy to reckon with: 1,000 micro for an input token, 5,000 for an output token. */
function plainModel({ format, script, provider = "simulated", cost, ...wish }: ModelWish): ModelSeed {
  const model = wish.model ?? format
  const name = script === undefined ? model : `${model}?${script}`
  return plainSeed(model, {
    context_window: 200_000,
    endpoints: [format],
    upstreams: [{ provider, format, model: name, ...(cost && { cost }) }],
    ...wish,
    model,
  })
}
