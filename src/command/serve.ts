/** `loket start`, `loket dev` and `loket simulator`: what runs until it is told to stop. */
import { InvalidArgumentError } from "@commander-js/extra-typings"
import { type Static, Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import { mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { Provider } from "../catalogue/model.ts"
import { bound, type Config, workersOf } from "../config.ts"
import { Failure } from "../failure/failure.ts"
import { isLoopback } from "../http/dashboard/session.ts"
import { logToStandardOutput } from "../log.ts"
import { ensureRuntimeSettings, logStrayErrors, ownCommand, serviceManager, stopAt } from "../own-process.ts"
import { wholeRupiah } from "../payments/provider.ts"
import { total } from "../payments/top-ups.ts"
import type { Server } from "../server/server.ts"
import { startSimulator } from "../simulator/simulator.ts"
import { unbound } from "../store/key-rows.ts"
import type { Backend } from "../upstream/providers.ts"
import { configuredBackends, secretSourceName, secretSourceNames, wrongSecrets } from "../upstream/providers.ts"
import { Supervisor } from "../workers/supervisor.ts"
import { isWorker, serveAsWorker } from "../workers/worker-process.ts"
import { command, CommandFailure, configuration, legalTexts, seedFiles } from "./command.ts"

export const startCommand = () =>
  command("start", {
    summary: "Serve in production; needs a provider's key in the environment",
    details:
      "Stops in order at SIGTERM, SIGINT and SIGHUP: calls under way end first, for at most DRAIN_MS. Under nohup SIGHUP does nothing. With WORKERS over 1 it is several processes on one port, and SIGHUP replaces them one after the other.",
    examples: [["start", "on 127.0.0.1:8787, with the embedded database in ./data"]],
  }).action(() => serve("start"))

export const devCommand = () =>
  command("dev", {
    summary: "Serve everything on this machine: simulated models, a demo account and a key",
    details: "With a provider's key in the environment it calls that provider instead of the simulator.",
    examples: [["dev", "ends with a command to try; its data stays in ./data"]],
  }).action(() => serve("dev"))

async function serve(mode: "dev" | "start"): Promise<void> {
  ensureRuntimeSettings()
  // A secret that nobody knows, so that the demo can be topped up and no forged payment is believed.
  const PAYMENT_SIMULATED_SECRET = process.env["PAYMENT_SIMULATED_SECRET"] || crypto.randomUUID()
  // On one's own machine nobody is kept out of the operator's pages; `start` asks for a second factor.
  const OPERATOR_SECOND_FACTOR = process.env["OPERATOR_SECOND_FACTOR"] || "false"
  const dev = { ...process.env, PAYMENT_SIMULATED_SECRET, OPERATOR_SECOND_FACTOR }
  const config = configuration(mode === "dev" ? dev : process.env)
  const isOne = workersOf(config) === 1
  if (!isOne && mode === "dev") throw new CommandFailure("WORKERS is over 1; dev is one process, start may be several")
  const isOfSeveral = isWorker(process.env)
  if (!isOne && !isOfSeveral) return await supervise(config)
  // Its supervisor replaces it in its turn, and has the signal too where all processes of a group are sent it.
  if (isOfSeveral) process.on("SIGHUP", () => {})
  const { catalogueFile, providers } = await seedFiles(config)
  const legal = await legalTexts(config)
  const wrong = wrongSecrets(providers, config.secret)
  if (wrong.length > 0) throw new CommandFailure(wrong.join("\n"))
  let backends = configuredBackends(providers, config.secret)
  if (backends.size === 0 && mode === "start") {
    throw new CommandFailure(
      `no provider is configured: set at least one of ${secretSourceNames(providers).join(", ")}; \`loket dev\` runs without, on simulated models`,
    )
  }
  const isOpenDev = mode === "dev" && !isLoopback(config.HOST)
  if (isOpenDev && backends.size > 0)
    throw new CommandFailure(openDevProblem(config.HOST, [...backends.values()].flat()))
  const simulator = backends.size === 0 ? startSimulator({ journal: false }) : undefined
  if (simulator !== undefined) {
    const simulated = (provider: Provider): [string, readonly Backend[]] => {
      const known = { ...provider, baseUrl: simulator.url }
      return [
        provider.id,
        known.credentials.map((credential) => ({
          provider: known,
          credential,
          apiKey: `simulated-${credential.name}`,
        })),
      ]
    }
    backends = new Map(providers.map(simulated))
  }
  const { log, drained } = logToStandardOutput(config.LOG_LEVEL)
  // Most of the code, which no other command needs, and neither does a supervisor.
  const { startServer } = await import("../server/server.ts")
  const starting = startServer({
    config,
    log,
    catalogueFile,
    backends,
    legal,
    fatal: (reason) => {
      log.error("fatal", { reason })
      process.exit(1)
    },
  })
  const server = await starting.catch((error: unknown) => {
    console.error("it does not start; `loket doctor` looks for the cause, and says what to do about it:")
    throw error
  })
  logStrayErrors(server.log)
  const manager = serviceManager(process.env, server.log)
  if (mode === "start" && config.PAYMENT_SIMULATED_SECRET !== undefined)
    server.log.warn("anybody can top up without paying", { because: "PAYMENT_SIMULATED_SECRET is set" })
  if (isOpenDev)
    server.log.warn("dev is open to the network", {
      host: config.HOST,
      because: "whoever reaches it tops up without paying",
    })

  const { promise: stopped, resolve, reject } = Promise.withResolvers<void>()
  const drain = async () => {
    await server.stop()
    await worker?.stopped()
    await simulator?.stop()
    await Promise.race([drained(), Bun.sleep(LOG_DRAIN_MS)])
  }
  let stopping = false
  // A worker is told by its supervisor, and perhaps by whoever told that: only the first time begins anything.
  const stop = (signal: string) => {
    if (stopping) return
    stopping = true
    log.info("stopping", { signal })
    manager.stopping()
    void drain().then(resolve, reject)
  }
  stopAt(isOfSeveral, stop)
  const worker = isOfSeveral ? serveAsWorker(server, () => stop("no supervisor")) : undefined
  manager.ready()
  // Last, so that whoever reads it can stop it in order.
  if (!isOfSeveral) log.info("listening", { url: server.url, providers: [...backends.keys()].join(" ") })
  if (mode === "dev") console.log(await startDemo(server, config, simulator !== undefined))
  if (isOpenDev) console.error(openDevWarning(config.HOST))
  await stopped
}

const openDevWarning = (host: string): string => `
  WARNING: this is \`dev\`, and it listens on ${host}. Whoever reaches it can sign up and top up
  without paying, and nothing is encrypted. Use HOST=127.0.0.1, or \`start\` for anybody but yourself.
`

/** The demo's free top-ups would be spent at a provider that sends a bill. */
function openDevProblem(host: string, backends: readonly Backend[]): string {
  const keys = backends.map(({ credential }) => secretSourceName(credential.key)).join(", ")
  return `dev does not listen on ${host} with a provider's key (${keys}): whoever reaches it tops up without paying, and spends your money there. Unset the key, set HOST=127.0.0.1, or run start`
}

/** How long an exit waits for a slow reader of the log. */
const LOG_DRAIN_MS = 2_000

/** `loket start` with `WORKERS` over 1: workers on one port, and one listener for their metrics. */
async function supervise(config: Config): Promise<void> {
  const { log, pass, drained } = logToStandardOutput(config.LOG_LEVEL)
  const workers = workersOf(config)
  const supervisor = new Supervisor({
    workers,
    command: ownCommand(),
    env: process.env,
    port: config.PORT,
    log,
    write: pass,
    complain: (lines) => console.error(lines.trimEnd()),
  })
  logStrayErrors(supervisor.log)
  const manager = serviceManager(process.env, supervisor.log)
  const stopped = Promise.withResolvers<void>()
  let stopping = false
  const stop = (signal: string) => {
    if (stopping) return
    stopping = true
    log.info("stopping", { signal })
    manager.stopping()
    void supervisor.stop().then(stopped.resolve, stopped.reject)
  }
  stopAt(true, stop)
  process.on("SIGHUP", () => void supervisor.replaceAll())
  const metrics = bound("METRICS_PORT", config, () => listenForMetrics(config, supervisor))
  const url = await supervisor.start().catch((error: unknown) => {
    if (stopping) return undefined
    throw new CommandFailure(`a worker does not start: ${error instanceof Error ? error.message : String(error)}`)
  })
  if (url !== undefined) {
    manager.ready()
    log.info("listening", { url, workers })
    await stopped.promise
    await metrics?.stop(true)
  }
  await Promise.race([drained(), Bun.sleep(LOG_DRAIN_MS)])
}

/** Undefined without `METRICS_PORT`. */
const listenForMetrics = ({ HOST, METRICS_PORT }: Config, supervisor: Supervisor) =>
  METRICS_PORT === undefined
    ? undefined
    : Bun.serve({ hostname: HOST, port: METRICS_PORT, fetch: (request) => supervisor.respond(request) })

const Demo = Type.Object({ email: Type.String(), password: Type.String(), key: Type.String() })
type Demo = Static<typeof Demo>

const here = { address: "127.0.0.1", userAgent: "loket dev" }
const BALANCE_RP = 100_000

/**
 * The newcomer's account of `dev`: made once, topped up through the simulated payment provider like any other, and
 * shown with a command that works as printed. Its key is kept beside the embedded database, readable by this user
 * alone. Makes the demo account if need be, and returns the banner.
 */
async function startDemo(server: Server, config: Config, simulated: boolean): Promise<string> {
  const demo = (await savedDemo(server, config)) ?? (await newDemo(server, config))
  return banner(server.url, demo, simulated)
}

async function savedDemo(server: Server, config: Config): Promise<Demo | undefined> {
  // Not there, or cut off where the process was killed that wrote it.
  const file = Bun.file(demoFile(config))
  const demo: unknown = await file.json().catch(() => undefined)
  if (!Value.Check(Demo, demo)) return undefined
  // The file may be left from another database.
  const response = await fetch(`${server.url}/v1/models`, { headers: { Authorization: `Bearer ${demo.key}` } })
  await response.body?.cancel()
  return response.ok ? demo : undefined
}

async function newDemo(server: Server, config: Config): Promise<Demo> {
  const email = `demo-${crypto.randomUUID().slice(0, 8)}@loket.example`
  const password = crypto.randomUUID()
  const { account, token } = sure(await server.accounts.signUp({ email, password }, here))
  const topUp = sure(await server.topUps.open(account.id, BALANCE_RP))
  const amountRp = wholeRupiah(total(topUp.breakdown))
  const paid = { kind: "paid", topUpId: topUp.id, reference: topUp.id, amountRp } as const
  sure(await server.topUps.settle("simulated", paid))
  const session = sure(await server.accounts.session(token, here))
  const none = undefined
  const { key } = sure(
    await server.keys.create(session, {
      name: "demo",
      requestsPerMinute: none,
      tokensPerMinute: none,
      spendingLimitMicro: none,
      spendingPeriod: none,
      fallback: none,
      showsBalance: none,
      replaysRetries: none,
      ...unbound,
    }),
  )
  const demo: Demo = { email, password, key }
  await mkdir(config.DATA_DIR, { recursive: true })
  await writeFile(demoFile(config), `${JSON.stringify(demo, null, 2)}\n`, { mode: 0o600 })
  return demo
}

const demoFile = (config: Config) => join(config.DATA_DIR, "demo.json")

function sure<T>(value: T): Exclude<T, Failure> {
  if (value instanceof Failure) throw new Error(`the demo account could not be made: ${value.message}`)
  return value as Exclude<T, Failure>
}

const banner = (url: string, { email, password, key }: Demo, simulated: boolean) => `
  Loket is running at ${url}${simulated ? "  (no provider configured: models are simulated)" : ""}

  demo account   ${email} / ${password}
  dashboard      ${url}/dashboard
  balance        Rp ${BALANCE_RP.toLocaleString("en")} at first
  API key        ${key}

  Try it:

  curl -N ${url}/v1/chat/completions \\
    -H 'Authorization: Bearer ${key}' \\
    -H 'Content-Type: application/json' \\
    -d '{"model":"deepseek-v3.2","stream":true,"messages":[{"role":"user","content":"Hello, Loket!"}]}'
`

const LARGEST_PORT = 65_535
const isPort = (text: string): boolean => /^\d{1,5}$/.test(text) && Number(text) <= LARGEST_PORT

function port(text: string): number {
  if (!isPort(text)) throw new InvalidArgumentError(`It must be a number from 0 to ${LARGEST_PORT}.`)
  return Number(text)
}

function configuredPort(): number {
  const text = process.env["PORT"] || "8788"
  if (!isPort(text)) throw new CommandFailure(`PORT is "${text}"; it must be a number from 0 to ${LARGEST_PORT}`, 2)
  return Number(text)
}

export const simulatorCommand = () =>
  command("simulator", {
    summary: "Serve a simulated backend, which speaks all formats and fails on request",
    details:
      'Script a call in its model\'s name: "any-name?ttft=200&pace=20&output=50&fault=status&status=503&times=2"',
    examples: [["simulator --port 8788", "as a provider's base_url: http://127.0.0.1:8788"]],
  })
    .option("--port <number>", "where to listen; 0 takes any free port; PORT says it too", port)
    .option("--host <address>", "the address to listen on; HOST says it too")
    .action(async (options) => {
      const simulator = startSimulator({
        port: options.port ?? configuredPort(),
        hostname: options.host ?? (process.env["HOST"] || "127.0.0.1"),
      })
      console.log(`simulator: ${simulator.url} (chat completions, messages, responses)
script a call in its model's name: "any-name?ttft=200&pace=20&output=50&fault=status&status=503&times=2"`)
      await new Promise<void>((resolve) => stopAt(true, () => resolve()))
      await simulator.stop()
    })
