/** What systemd hears of a gateway's process, and what a process that stands still costs until it is ended. */
import { afterEach, beforeEach, expect, test } from "bun:test"
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

/** What is heard in so many milliseconds. */
async function hearFor(ms: number): Promise<string[]> {
  await Bun.sleep(ms)
  return socket.heard()
}

test("a gateway says that it is ready when it listens, gives signs of life but when it is frozen, and says that it stops", async () => {
  const gateway = house.spawn(watched())
  stack.defer(() => gateway.kill())
  await gateway.listening
  expect(socket.heard()[0]).toBe("READY=1")
  expect(new Set(await hearFor(WATCHDOG_MS))).toEqual(new Set(["WATCHDOG=1"]))
  gateway.signal("SIGSTOP")
  socket.heard()
  expect(await hearFor(2 * WATCHDOG_MS)).toEqual([])
  gateway.signal("SIGCONT")
  expect(await hearFor(WATCHDOG_MS)).toContain("WATCHDOG=1")
  expect(await gateway.stop()).toBe(0)
  expect(socket.heard()).toContain("STOPPING=1")
}, 60_000)

test.skipIf(!onPostgres)(
  "a frozen process is seen by its neighbour, and when the watchdog has ended it all of the balance is served",
  async () => {
    const frozen = await start(watched())
    const customer = await frozen.customer(CREDIT_RP)
    expect(await status(frozen, customer)).toBe(200)
    const metricsPort = String(20_000 + Math.floor(Math.random() * 10_000))
    const near = await start({ METRICS_PORT: metricsPort })
    const own = `http://127.0.0.1:${metricsPort}`
    expect((await fetch(`${own}/healthz`)).status).toBe(200)
    expect(await (await fetch(`${own}/readyz`)).json()).toMatchObject({ status: "ready", database: true })

    frozen.signal("SIGSTOP")
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

    socket.heard()
    // As systemd does when nothing has come for WatchdogSec.
    expect(await hearFor(WATCHDOG_MS)).toEqual([])
    await frozen.kill()
    const since = performance.now()
    while (served < 9 && performance.now() - since < 15_000)
      if ((await status(near, customer)) === 200) served++
      else await Bun.sleep(100)
    expect(served).toBe(9)
    expect(await status(near, customer)).toBe(402)
    expect(await near.stop()).toBe(0)
    await house.books(reconcile)
  },
  60_000,
)

const status = async (gateway: ChildGateway, { key }: Customer): Promise<number> => {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: "quick", max_tokens: 20, messages: hello }),
  })
  await response.text()
  return response.status
}

async function gauge(own: string, name: string): Promise<number[]> {
  const text = await (await fetch(`${own}/metrics`)).text()
  return [...text.matchAll(new RegExp(`^${name}\\{process_id="[^"]+"\\} (\\S+)$`, "gm"))].map(([, value]) =>
    Number(value),
  )
}
