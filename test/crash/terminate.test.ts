/** SIGTERM in the midst of calls, and what a process warns of. SIGKILL is in torture.test.ts. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../free-port.ts"
import { reconcile } from "../money/reconcile.ts"
import { bodyOf, formats, paths, terminals } from "./asking.ts"
import { type ChildGateway, House, modelSeed } from "./child.ts"

/** Of every answer: 30 input tokens at 1,000, 20 output tokens at 5,000. */
const CHARGE_MICRO = 130_000

let house: House
let gateway: ChildGateway
beforeEach(async () => {
  const seeds = formats.flatMap((format) => [
    modelSeed(format, format, "input=30&output=20&pace=50"),
    // Long enough for what is asked while its stream goes on.
    modelSeed(`long-${format}`, format, "input=30&output=20&pace=200"),
  ])
  house = await House.build(seeds)
  gateway = await house.start()
})
afterEach(async () => {
  await gateway.kill()
  await house[Symbol.asyncDispose]()
})

/** How often a process has logged an event, as its alerts see it. */
async function logged(metricsPort: number, event: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
  const line = text.split("\n").find((each) => each.startsWith("loket_log_events_total{") && each.includes(event))
  return Number(line?.split(" ").at(-1) ?? 0)
}

test("simulated payments in production are warned of", async () => {
  const warning = /"level":"warn","event":"anybody can top up without paying"/
  expect(gateway.complaints).toEqual([expect.stringMatching(warning)])
  gateway.terminate()
  expect(await gateway.exited).toBe(0)
  const without = await house.start({ PAYMENT_SIMULATED_SECRET: "" })
  expect(without.complaints).toEqual([])
  await without.kill()
  const metricsPort = freePort()
  const counted = await house.start({ METRICS_PORT: String(metricsPort) })
  expect(await logged(metricsPort, "anybody can top up without paying")).toBe(1)
  await counted.kill()
})

test("what is thrown where nobody catches it is in the log and in the metrics, and the process goes on", async () => {
  const directory = mkdtempSync(join(tmpdir(), "loket-stray-"))
  const preload = join(directory, "bugs.ts")
  writeFileSync(
    preload,
    `process.on("SIGUSR2", () => {
      setTimeout(() => { throw new Error("a bug in a timer") }, 0)
      void Promise.reject(new Error("a bug in a promise"))
    })`,
  )
  await gateway.kill()
  const metricsPort = freePort()
  const buggy = await house.start({ METRICS_PORT: String(metricsPort), BUN_OPTIONS: `--preload=${preload}` })
  expect(await logged(metricsPort, "unhandled")).toBe(0)
  buggy.signal("SIGUSR2")
  while (!/timer/.test(buggy.complaints.join()) || !/promise/.test(buggy.complaints.join())) await Bun.sleep(10)
  for (const where of ["timer", "promise"]) {
    const line = new RegExp(`"level":"error","event":"unhandled","error":"Error: a bug in a ${where}\\\\n +at `)
    expect(buggy.complaints).toContainEqual(expect.stringMatching(line))
  }
  expect(await logged(metricsPort, "unhandled")).toBe(2)
  buggy.terminate()
  expect(await buggy.exited).toBe(0)
  rmSync(directory, { recursive: true })
})

test("SIGTERM, however often, lets streams end, takes no new calls, gives the leases back and ends with 0", async () => {
  const customer = await gateway.customer(10_000)
  const streams = await Promise.all(
    formats.map(async (format) => {
      const response = await fetch(gateway.url + paths[format], {
        method: "POST",
        headers: { Authorization: `Bearer ${customer.key}` },
        body: JSON.stringify(bodyOf(format, `long-${format}`, true)),
      })
      expect(response.status).toBe(200)
      return { format, response }
    }),
  )
  gateway.terminate()
  let draining: Response
  do draining = await gateway.get("/readyz")
  while (draining.status === 200)
  expect(draining.status).toBe(503)
  expect(await draining.json()).toMatchObject({ draining: true, database: true })
  // As a supervisor and a service manager that both tell all processes.
  gateway.terminate()
  const refused = await fetch(gateway.url + paths.chat, {
    method: "POST",
    headers: { Authorization: `Bearer ${customer.key}` },
    body: JSON.stringify(bodyOf("chat", "chat", false)),
  })
  expect([refused.status, refused.headers.get("x-error-code")]).toEqual([429, "gateway.capacity"])
  const requestIds = await Promise.all(
    streams.map(async ({ format, response }) => {
      expect(await response.text()).toInclude(terminals[format])
      return response.headers.get("x-request-id") ?? ""
    }),
  )
  expect(await gateway.exited).toBe(0)
  await house.books(async (sql) => {
    await reconcile(sql)
    const records = await sql<{ request_id: string; status: string; charge_micro: bigint }[]>`
      select request_id, status, charge_micro from usage`
    expect(records).toHaveLength(3)
    for (const record of records) expect(record).toMatchObject({ status: "ok", charge_micro: BigInt(CHARGE_MICRO) })
    expect(records.map((record) => record.request_id).sort()).toEqual(requestIds.sort())
    expect(await sql`select from leases where closed_at is null`).toHaveLength(0)
    const [balance] = await sql`select leased_micro, posted_micro from balances`
    expect(balance).toEqual({ leased_micro: 0n, posted_micro: 10_000_000_000n - 3n * BigInt(CHARGE_MICRO) })
  })
})

/** A stream of 20 tokens, 50 ms apart, that has begun. */
async function streaming(): Promise<Response> {
  const customer = await gateway.customer(10_000)
  const response = await fetch(gateway.url + paths.chat, {
    method: "POST",
    headers: { Authorization: `Bearer ${customer.key}` },
    body: JSON.stringify(bodyOf("chat", "chat", true)),
  })
  expect(response.status).toBe(200)
  return response
}

test("SIGHUP, as of a terminal that is closed, lets a stream end, and ends with 0", async () => {
  const stream = await streaming()
  gateway.signal("SIGHUP")
  expect(await stream.text()).toInclude(terminals.chat)
  expect(await gateway.exited).toBe(0)
})

test("a process that was started to ignore SIGHUP, as by nohup, takes calls after it", async () => {
  await gateway.kill()
  gateway = await house.start({}, ["sh", "-c", `trap "" HUP; exec "$@"`, "sh"])
  const stream = await streaming()
  gateway.signal("SIGHUP")
  expect(await stream.text()).toInclude(terminals.chat)
  expect((await gateway.get("/readyz")).status).toBe(200)
  expect(await gateway.stop()).toBe(0)
})

test("a mail server that says nothing holds up the end for no longer than 15 s", async () => {
  await gateway.kill()
  const asked = Promise.withResolvers<void>()
  using silent = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(socket) {
        socket.write("220 here\r\n")
        asked.resolve()
      },
      data() {},
    },
  })
  const SMTP_URL = `smtp://127.0.0.1:${silent.port}`
  gateway = await house.start({ SMTP_URL, MAIL_FROM: "no-reply@loket.example", PUBLIC_URL: "https://loket.example" })
  for (let n = 0; n < 3; n++) await gateway.customer(0)
  await asked.promise
  const since = performance.now()
  expect(await gateway.stop()).toBe(0)
  expect(performance.now() - since).toBeLessThan(15_000)
  await house.books((sql) => reconcile(sql))
})

test("a process whose port is taken is none that died", async () => {
  using taken = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } })
  await gateway.kill()
  const late = house.spawn({ PORT: String(taken.port) })
  expect(await late.exited).toBe(1)
  await late.silent
  expect(late.complaints.at(-1)).toContain(`port ${taken.port}`)
  // The one that was killed was closed by it.
  expect(late.complaints.join("\n")).toContain("closed a dead process")
  gateway = await house.start()
  expect(gateway.complaints.join("\n")).not.toContain("closed a dead process")
})

test("a process that cannot read which calls it is to take back is none that died", async () => {
  await gateway.kill()
  rmSync(house.withdrawals, { recursive: true, force: true })
  mkdirSync(house.dataDir, { recursive: true })
  writeFileSync(house.withdrawals, "no directory")
  const late = house.spawn()
  expect(await late.exited).toBe(1)
  await late.silent
  expect(late.complaints.at(-1)).toContain("withdrawals cannot be read (ENOTDIR)")
  rmSync(house.withdrawals)
  gateway = await house.start()
  expect(gateway.complaints.join("\n")).not.toContain("closed a dead process")
})

test("a process that shares its port is not ready from SIGTERM on, where it is asked itself", async () => {
  await gateway.kill()
  const metricsPort = freePort()
  gateway = await house.start({ REUSE_PORT: "true", METRICS_PORT: String(metricsPort), PORT: String(freePort()) })
  const own = () => fetch(`http://127.0.0.1:${metricsPort}/readyz`)
  expect((await own()).status).toBe(200)
  gateway.terminate()
  let told: Response
  do told = await own()
  while (told.status === 200)
  expect([told.status, await told.json()]).toEqual([503, expect.objectContaining({ draining: true, database: true })])
  expect(await gateway.exited).toBe(0)
})

/** Where a process can be made the first of its own, as in a container: the kernel keeps from it what it has no handler for. */
const asFirst = ["unshare", "-rpf", "--kill-child"]
/** The signal is for what `unshare` has started. */
const terminate = ({ pid }: ChildGateway) =>
  process.kill(Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")), "SIGTERM")

test.skipIf(!Bun.spawnSync([...asFirst, "true"]).success)(
  "the first process of a container ends at SIGTERM while it starts, and in order once it listens",
  async () => {
    await gateway.kill()
    using silent = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } })
    const starting = house.spawn({ DATABASE_URL: `postgres://root@127.0.0.1:${silent.port}/loket` }, asFirst)
    while (!starting.complaints.join().includes("waits for the database")) await Bun.sleep(10)
    const since = performance.now()
    terminate(starting)
    expect(await starting.exited).toBe(143)
    // An engine kills ten seconds after it has asked.
    expect(performance.now() - since).toBeLessThan(8_000)
    gateway = await house.start({}, asFirst)
    const stream = await streaming()
    terminate(gateway)
    expect(await stream.text()).toInclude(terminals.chat)
    expect(await gateway.exited).toBe(0)
  },
)
