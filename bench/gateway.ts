/** The gateway under measurement, run as an operator runs it. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import catalogue from "../seeds/catalogue.json" with { type: "json" }
import { runtimeSettings } from "../src/own-process.ts"
import { type Child, startChild } from "./child.ts"

const SECRET = "bench"
const root = join(import.meta.dir, "..")

const ROOM_FOR_ALL = 10_000

export interface BenchModel {
  /** Of its backend, without the format's own path. */
  readonly baseUrl: string
  readonly format: "chat" | "messages"
  /** Its name at the backend. */
  readonly upstreamModel: string
  /** Of calls at the same time; without it there is room for all. */
  readonly maxConcurrency?: number
}

/** To look into a gateway's process. */
export interface Inspection {
  /** Of Bun. */
  readonly flags: readonly string[]
  readonly stderrFile?: string
}

/** Models of a simulator, one for each script. */
export const simulated = (
  url: string,
  scripts: Readonly<Record<string, string>>,
  caps: Readonly<Record<string, number>> = {},
): Record<string, BenchModel> =>
  Object.fromEntries(
    Object.entries(scripts).map(([model, script]) => [
      model,
      {
        baseUrl: url,
        format: "chat",
        upstreamModel: `sim?${script}`,
        ...(caps[model] !== undefined && { maxConcurrency: caps[model] }),
      },
    ]),
  )

/** A gateway in a process of its own whose models speak chat, with its data in a directory of its own. */
export async function startGateway(
  models: Readonly<Record<string, BenchModel>>,
  env: Readonly<Record<string, string>> = {},
  { flags, stderrFile }: Inspection = { flags: [] },
): Promise<Child> {
  const files = mkdtempSync(join(tmpdir(), "loket-bench-"))
  const sample = catalogue.models.find(({ upstream }) => upstream.format === "chat")
  const named = Object.entries(models)
  const offered = named.map(([model, { format, upstreamModel, maxConcurrency }]) => ({
    ...sample,
    model,
    endpoints: ["chat"],
    upstream: { provider: model, format, model: upstreamModel },
    max_concurrency: maxConcurrency ?? ROOM_FOR_ALL,
    fallback: [],
  }))
  const providers = named.map(([id, { baseUrl }]) => ({
    id,
    label: "Bench",
    base_url: baseUrl,
    api_key_env: "BENCH_KEY",
    headers: {},
  }))
  writeFileSync(join(files, "catalogue.json"), JSON.stringify({ models: offered }))
  writeFileSync(join(files, "providers.json"), JSON.stringify({ providers }))
  const child = await startChild(
    ["bun", ...flags, join(root, "src/main.ts"), "start"],
    {
      PORT: "0",
      DATA_DIR: join(files, "data"),
      CATALOGUE_FILE: join(files, "catalogue.json"),
      PROVIDERS_FILE: join(files, "providers.json"),
      BENCH_KEY: "bench",
      PAYMENT_SIMULATED_SECRET: SECRET,
      ...runtimeSettings,
      ...env,
    },
    /"event":"listening","url":"([^"]+)"/,
    stderrFile === undefined ? {} : { stderrFile },
  )
  return {
    ...child,
    async stop() {
      await child.stop()
      rmSync(files, { recursive: true, force: true })
    },
  }
}

/** A key of an account with money, made as anybody makes them. */
export const benchKey = async (url: string): Promise<string> => (await benchKeys(url, 100_000_000, 1))[0] ?? ""

/** So many keys of an account with so much money, with such limits; Rp 0 is one that never paid. */
export async function benchKeys(
  url: string,
  balanceRp: number,
  keys: number,
  limits: Readonly<Record<string, number>> = {},
): Promise<string[]> {
  const post = async (path: string, body: string, headers: Record<string, string> = {}) => {
    const response = await fetch(url + path, { method: "POST", body, headers })
    if (!response.ok) throw new Error(`${path}: ${await response.text()}`)
    return (await response.json()) as Record<string, string>
  }
  const email = `bench-${crypto.randomUUID()}@example.com`
  const { session_token } = await post("/auth/sign-up", JSON.stringify({ email, password: "correct horse battery" }))
  const session = { Authorization: `Bearer ${session_token}` }
  if (balanceRp > 0) {
    const { id } = await post("/top-ups", JSON.stringify({ amount_rp: balanceRp }), session)
    const paid = JSON.stringify({ top_up_id: id, status: "paid", amount_rp: balanceRp })
    const signature = new Bun.CryptoHasher("sha256", SECRET).update(paid).digest("hex")
    await post("/webhooks/payments/simulated", paid, { "X-Signature": signature })
  }
  const made: string[] = []
  while (made.length < keys)
    made.push((await post("/keys", JSON.stringify({ name: "bench", ...limits }), session))["key"] ?? "")
  return made
}
