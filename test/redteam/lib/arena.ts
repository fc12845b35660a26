/**
 * A gateway as in production (a process of its own, its own books, the shipped catalogue), the hostile backend behind it,
 * and the people who attack it. All of it on loopback.
 */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { runtimeSettings } from "../../../src/own-process.ts"
import { ChildGateway, type Customer, PAYMENT_SECRET } from "../../crash/child.ts"
import { Attacker } from "./attacker.ts"
import { HostileBackend } from "./backend.ts"
import { ownPlace, type Place } from "./place.ts"

/** What the rows need to know of a model. */
export interface Model {
  readonly model: string
  readonly input_micro: number
  readonly output_micro: number
  readonly cache_read_micro: number
  readonly cache_write_micro: number
  readonly context_window: number | null
  readonly max_output_tokens: number
  readonly upstream: { readonly provider: string; readonly format: string; readonly model: string }
  readonly [field: string]: unknown
}

export interface Terms {
  /** The checkout whose gateway is attacked. */
  readonly root: string
  readonly env?: Readonly<Record<string, string>>
  /** Limits of the process, as `ulimit` takes them. */
  readonly ulimit?: string
}

/** Beside what is shipped: one model with room for thousands of calls, and one with hardly any. */
export const WIDE = "redteam-wide"
export const NARROW = "redteam-narrow"
export const NARROW_CAP = 8
/** One for each endpoint that only some catalogues have. */
export const VECTORS = "redteam-vectors"
export const COMPLETES = "redteam-completes"
export const TEXT_WINDOW = 8_192
const TEXT_RATES = { input_micro: 1_000, cache_read_micro: 0, cache_write_micro: 0, context_window: TEXT_WINDOW }
const TEXT_MODELS = {
  [VECTORS]: { format: "embeddings", output_micro: 0 },
  [COMPLETES]: { format: "completions", output_micro: 5_000 },
} as const

export class Arena implements AsyncDisposable {
  readonly gateway: ChildGateway
  readonly backend: HostileBackend
  readonly place: Place
  readonly models: ReadonlyMap<string, Model>
  readonly attackers: Attacker[] = []
  readonly root: string
  /** Those that are not closed yet, for a run that is ended from outside. */
  static readonly living = new Set<Arena>()
  readonly #env: Readonly<Record<string, string>>
  readonly #stack: AsyncDisposableStack

  private constructor(parts: {
    readonly gateway: ChildGateway
    readonly backend: HostileBackend
    readonly place: Place
    readonly models: ReadonlyMap<string, Model>
    readonly root: string
    readonly env: Readonly<Record<string, string>>
    readonly stack: AsyncDisposableStack
  }) {
    this.gateway = parts.gateway
    this.backend = parts.backend
    this.place = parts.place
    this.models = parts.models
    this.root = parts.root
    this.#env = parts.env
    this.#stack = parts.stack
    Arena.living.add(this)
  }

  static async open({ root, env = {}, ulimit }: Terms): Promise<Arena> {
    const stack = new AsyncDisposableStack()
    const place = stack.use(await ownPlace())
    const backend = stack.use(await HostileBackend.start())
    const directory = mkdtempSync(join(tmpdir(), "loket-redteam-files-"))
    stack.defer(() => rmSync(directory, { recursive: true, force: true }))
    const shipped = (await Bun.file(join(root, "seeds/catalogue.json")).json()) as { models: Model[] }
    // Another checkout may not have their endpoints yet.
    const untold = existsSync(join(root, "src/wire/embeddings")) ? TEXT_MODELS : {}
    const models = [...shipped.models, ...ours(shipped.models, untold)]
    const providers = ["first", "second"].map((id) => ({
      id,
      label: "Hostile",
      base_url: backend.url,
      api_key_env: "HOSTILE_KEY",
      headers: {},
    }))
    writeFileSync(join(directory, "catalogue.json"), JSON.stringify({ ...shipped, models }))
    writeFileSync(join(directory, "providers.json"), JSON.stringify({ providers }))
    const all = {
      PATH: process.env["PATH"] ?? "",
      PORT: "0",
      CATALOGUE_FILE: join(directory, "catalogue.json"),
      PROVIDERS_FILE: join(directory, "providers.json"),
      HOSTILE_KEY: "a key of the house's",
      PAYMENT_SIMULATED_SECRET: PAYMENT_SECRET,
      OPERATOR_SECOND_FACTOR: "false",
      CLIENT_ADDRESS_HEADER: ADDRESS_HEADER,
      ...runtimeSettings,
      ...place.env,
      ...env,
    }
    const start = ["bun", resolve(root, "src/main.ts"), "start"]
    const command = ulimit === undefined ? start : ["sh", "-c", `ulimit ${ulimit}; exec "$@"`, "sh", ...start]
    const child = Bun.spawn(command, { cwd: directory, env: all, stdout: "pipe", stderr: "pipe" })
    const gateway = new ChildGateway(child)
    stack.defer(async () => {
      child.kill("SIGKILL")
      await child.exited
    })
    await gateway.listening
    const byId = new Map(models.map((model) => [model.model, model]))
    return new Arena({ gateway, backend, place, models: byId, root, env: all, stack })
  }

  get url(): string {
    return this.gateway.url
  }

  /** Somebody with an account, so much money, and a key. */
  async attacker(balanceRp: number, limits: Readonly<Record<string, unknown>> = {}): Promise<Attacker> {
    const customer: Customer = await this.gateway.customer(balanceRp, limits)
    const attacker = new Attacker(this, customer, balanceRp)
    this.attackers.push(attacker)
    return attacker
  }

  /** The session of an operator of its own; undefined where the books cannot be reached beside the gateway. */
  async operator(): Promise<string | undefined> {
    if (this.place.url === undefined) return undefined
    const credentials = { email: `o${crypto.randomUUID()}@example.com`, password: "correct horse battery" }
    const post = (path: string) =>
      fetch(this.url + path, {
        method: "POST",
        body: JSON.stringify(credentials),
        headers: { "Content-Type": "application/json" },
      })
    await post("/auth/sign-up")
    await this.command("operator", credentials.email)
    return ((await (await post("/auth/sign-in")).json()) as { session_token: string }).session_token
  }

  /** A command of the gateway's own program, on the same books. */
  async command(...args: readonly string[]): Promise<{ readonly code: number; readonly said: string }> {
    const child = Bun.spawn(["bun", resolve(this.root, "src/main.ts"), ...args], {
      env: { ...this.#env },
      stdout: "pipe",
      stderr: "pipe",
    })
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
    return { code: await child.exited, said: out + err }
  }

  [Symbol.asyncDispose](): Promise<void> {
    Arena.living.delete(this)
    return this.#stack.disposeAsync()
  }
}

/** As a proxy in front of the gateway would tell it; absent, the peer's own address counts. */
export const ADDRESS_HEADER = "X-Redteam-Address"

function ours(shipped: readonly Model[], texts: Partial<typeof TEXT_MODELS>): Model[] {
  const sample = shipped.find(({ upstream }) => upstream.format === "chat")
  if (sample === undefined) throw new Error("the catalogue has no model with a chat backend")
  const made = (model: string, max_concurrency: number) => ({
    ...sample,
    model,
    upstream: { ...sample.upstream, model: `${model}-backend` },
    max_concurrency,
    fallback: [],
  })
  const ofTexts = Object.entries(texts).map(([model, { format, output_micro }]) => ({
    ...made(model, 1_000),
    ...TEXT_RATES,
    output_micro,
    endpoints: [format],
    upstream: { ...sample.upstream, format, model: `${model}-backend` },
  }))
  return [made(WIDE, 10_000), made(NARROW, NARROW_CAP), ...ofTexts]
}
