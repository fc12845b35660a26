/**
 * The newcomer's account of `dev`: made once, topped up through the simulated payment provider like any other, and shown
 * with a command that works as printed. Its key is kept beside the embedded database, readable by this user alone.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { type Static, Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import type { Config } from "../config.ts"
import { Failure } from "../failure/failure.ts"
import { unbound } from "../store/key-rows.ts"
import type { Server } from "../server/server.ts"

const Demo = Type.Object({ email: Type.String(), password: Type.String(), key: Type.String() })
type Demo = Static<typeof Demo>

const here = { address: "127.0.0.1", userAgent: "loket dev" }
const BALANCE_RP = 100_000

/** Makes the demo account if need be, and returns the banner. */
export async function startDemo(server: Server, config: Config, simulated: boolean): Promise<string> {
  const demo = (await savedDemo(server, config)) ?? (await newDemo(server, config))
  return banner(server.url, demo, simulated)
}

async function savedDemo(server: Server, config: Config): Promise<Demo | undefined> {
  const text = await readFile(demoFile(config), "utf8").catch(() => "")
  if (text === "") return undefined
  const demo: unknown = JSON.parse(text)
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
  sure(
    await server.topUps.settle("simulated", {
      kind: "paid",
      topUpId: topUp.id,
      reference: topUp.id,
      amountRp: BigInt(BALANCE_RP),
    }),
  )
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
  balance        Rp ${BALANCE_RP.toLocaleString("id-ID")} at first
  API key        ${key}

  Try it:

  curl -N ${url}/v1/chat/completions \\
    -H 'Authorization: Bearer ${key}' \\
    -H 'Content-Type: application/json' \\
    -d '{"model":"deepseek-v3.2","stream":true,"messages":[{"role":"user","content":"Hello, Loket!"}]}'
`
