/** What systemd hears of a gateway's process, and what a process that stands still costs until it is ended. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { freePort } from "../free-port.ts"
import { reconcile } from "../money/reconcile.ts"
import { NotifySocket } from "../processes/notify-socket.ts"
import { onPostgres } from "../store/harness.ts"
import { hello } from "./asking.ts"
import { type ChildGateway, type Customer, House, modelSeed } from "./child.ts"

const WATCHDOG_MS = 1_500
/** Of ten answers, each of Rp 1,000. */
const CREDIT_RP = 10_000
const DEAR = { input_micro: 0, output_micro: 50_000_000 }

let stack: AsyncDisposableStack
let house: House
let socket: NotifySocket
beforeEach(async () => {
  stack = new AsyncDisposableStack()
  socket = stack.use(new NotifySocket())
  house = stack.use(await House.build([modelSeed("quick", "chat", "input=1&output=20", DEAR)]))
})
afterEach(() => stack.disposeAsync())

const watched = () => ({ NOTIFY_SOCKET: socket.address, WATCHDOG_USEC: String(WATCHDOG_MS * 1_000) })

async function start(env: Readonly<Record<string, string>> = {}): Promise<ChildGateway> {
  const gateway = await house.start(env)
  stack.defer(() => gateway.kill())
  return gateway
}

/** What is heard until so many signs of life have come. */
async function hearSigns(count: number): Promise<string[]> {
  const heard: string[] = []
  while (heard.filter((word) => word === "WATCHDOG=1").length < count) {
    await Bun.sleep(20)
    heard.push(...socket.heard())
  }
  return heard
}

/** Resolves when it runs no more. */
async function freeze(gateway: ChildGateway): Promise<void> {
  gateway.signal("SIGSTOP")
  while (!/^State:\s+T/m.test(readFileSync(`/proc/${gateway.pid}/status`, "utf8"))) await Bun.sleep(1)
}

/** As long as systemd waits, and once more. */
async function hearNothing(): Promise<void> {
  socket.heard()
  await Bun.sleep(2 * WATCHDOG_MS)
  expect(socket.heard()).toEqual([])
}

test("a gateway says that it is ready when it listens, gives signs of life but when it is frozen, and says that it stops", async () => {
  const gateway = house.spawn(watched())
  stack.defer(() => gateway.kill())
  await gateway.listening
  expect(socket.heard()[0]).toBe("READY=1")
  expect(new Set(await hearSigns(2))).toEqual(new Set(["WATCHDOG=1"]))
  await freeze(gateway)
  await hearNothing()
  gateway.signal("SIGCONT")
  expect(new Set(await hearSigns(1))).toEqual(new Set(["WATCHDOG=1"]))
  expect(await gateway.stop()).toBe(0)
  expect(socket.heard()).toContain("STOPPING=1")
})

test.skipIf(!onPostgres)(
  "a frozen process is seen by its neighbour, and when the watchdog has ended it all of the balance is served",
  async () => {
    const frozen = await start(watched())
    const customer = await frozen.customer(CREDIT_RP)
    expect(await status(frozen, customer)).toBe(200)
    const metricsPort = String(freePort())
    const near = await start({ METRICS_PORT: metricsPort })
    const own = `http://127.0.0.1:${metricsPort}`
    expect((await fetch(`${own}/healthz`)).status).toBe(200)
    expect(await (await fetch(`${own}/readyz`)).json()).toMatchObject({ status: "ready", database: true })

    await freeze(frozen)
    // As much of the money as the frozen one holds is out of reach, and whose it is can be read.
    let served = 0
    while ((await status(near, customer)) === 200) served++
    expect(served).toBeLessThan(9)
    let silence = 0
    while (silence < 4) {
      await Bun.sleep(200)
      const silent = await gauge(own, "loket_process_silence_seconds")
      expect(silent).toHaveLength(2)
      silence = Math.max(...silent)
    }
    expect((await gauge(own, "loket_process_leased_micro")).filter((micro) => micro > 0)).toHaveLength(1)

    // As systemd does when nothing has come for WatchdogSec.
    await hearNothing()
    await frozen.kill()
    while (served < 9)
      if ((await status(near, customer)) === 200) served++
      else await Bun.sleep(100)
    expect(await status(near, customer)).toBe(402)
    expect(await near.stop()).toBe(0)
    await house.books(reconcile)
  },
)

test.skipIf(!onPostgres)(
  "a frozen process that goes on reads first what was changed meanwhile: a revoked key is refused, and a price that has begun holds",
  async () => {
    const frozen = await start()
    const near = await start()
    const revoked = await near.customer(CREDIT_RP)
    const other = await near.customer(CREDIT_RP)
    for (const customer of [revoked, other]) expect(await status(frozen, customer)).toBe(200)
    await freeze(frozen)
    const since = performance.now()
    const headers = { Authorization: `Bearer ${revoked.token}` }
    const revoking = await fetch(`${near.url}/keys/${revoked.keyId}/revoke`, { method: "POST", headers })
    expect(revoking.status).toBe(200)
    await house.books(
      (
        sql,
      ) => sql`insert into prices (model, input_micro, output_micro, cache_read_micro, cache_write_micro, effective_at)
        values ('quick', 0, 25000000, 0, 0, now())`,
    )
    while ((await ask(near, other)).headers.get("x-cost-rp") !== "500") await Bun.sleep(100)
    const late = [...Array.from({ length: 5 }, () => ask(frozen, revoked)), ask(frozen, other)]
    // A second is what a change may take to be in force everywhere.
    await Bun.sleep(Math.max(300, 1_500 - (performance.now() - since)))
    frozen.signal("SIGCONT")
    const told = await Promise.all(late)
    expect(told.map((response) => response.headers.get("x-error-code") ?? response.headers.get("x-cost-rp"))).toEqual([
      ...Array.from({ length: 5 }, () => "auth.api_key_revoked"),
      "500",
    ])
    expect([await frozen.stop(), await near.stop()]).toEqual([0, 0])
    await house.books(reconcile)
  },
)

const ask = async (gateway: ChildGateway, { key }: Customer): Promise<Response> => {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: "quick", max_tokens: 20, messages: hello }),
  })
  await response.text()
  return response
}

const status = async (gateway: ChildGateway, customer: Customer): Promise<number> =>
  (await ask(gateway, customer)).status

async function gauge(own: string, name: string): Promise<number[]> {
  const text = await (await fetch(`${own}/metrics`)).text()
  return [...text.matchAll(new RegExp(`^${name}\\{process_id="[^"]+"\\} (\\S+)$`, "gm"))].map(([, value]) =>
    Number(value),
  )
}
