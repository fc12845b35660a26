/** Every way in which a call can end, played (endings.ts). What befalls whole processes is in test/crash/endings.test.ts. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { hasOwnDatabase, standStill } from "../gateway/binary.ts"
import { type GatewayOptions, type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { type FaultProxy, openFaultProxy } from "../store/fault-proxy.ts"
import { ask, callsOf, content, eventually, failureIn } from "./calling.ts"
import { type Cause, type Ending, endings, endingsTable, type State, states } from "./endings.ts"
import { RawClient } from "./raw-client.ts"

/** A gateway, the way to its database, and somebody who pays. */
interface House extends AsyncDisposable {
  readonly gateway: TestGateway
  readonly proxy: FaultProxy
  readonly person: Person
  readonly key: string
  stop(): Promise<void>
}

async function house(env: GatewayOptions["env"] = {}): Promise<House> {
  let proxy: FaultProxy | undefined
  const gateway = await startTestGateway({
    env: { HEARTBEAT_MS: "3600000", ...env },
    databaseUrl: async (url) => (proxy = await openFaultProxy(url)).url,
  })
  if (proxy === undefined) throw new Error("the gateway has asked for no database")
  const opened = proxy
  const person = await gateway.person(10_000_000)
  let stopped: Promise<void> | undefined
  // A drain is the gateway's own end; the rest is taken down once it is over.
  const stop = () => (stopped ??= gateway.stop())
  return {
    gateway,
    proxy: opened,
    person,
    key: (await gateway.key(person)).key,
    stop,
    [Symbol.asyncDispose]: async () => {
      opened.deliver()
      await gateway[Symbol.asyncDispose]()
      await opened.close()
    },
  }
}

/** What a batch that charges carries in its bytes, and nothing else does: it waits in the network while a call is settling. */
const SETTLING = ",true,ok,"

/** Time that a call spends in a state, so that what befalls it does so there. */
const scripts: Record<State, string> = {
  waiting: "ttft=500&input=10&output=6&pace=20",
  trying: "ttft=500&input=10&output=6&pace=20",
  relaying: "input=10&output=14&pace=40",
  draining: "input=10&output=14&pace=40",
  settling: "input=10&output=3&pace=40",
}

interface Scene {
  readonly model: string
  readonly client: RawClient
  /** Whoever had the only slot has left it. */
  readonly slotFree: Promise<unknown>
}

/** A call that has come as far as a state; `script` is laid over the state's own. */
async function enter(state: State, { gateway, proxy, key }: House, script = "", body: object = {}): Promise<Scene> {
  const model = await gateway.model({
    format: "chat",
    script: merged(scripts[state], script),
    ...(state === "waiting" && { max_concurrency: 1 }),
  })
  let slotFree: Promise<unknown> = Promise.resolve()
  if (state === "waiting") {
    slotFree = ask(gateway, key, "chat", model, { stream: true }).then((response) => response.text())
    await eventually(
      "the slot is taken",
      () => callsOf(gateway, model).length,
      (calls) => calls === 1,
    )
  }
  if (state === "settling") proxy.hold(SETTLING)
  const client = new RawClient(gateway.url, key, { model, stream: true, ...body })
  if (state === "waiting") await Bun.sleep(80)
  else
    await eventually(
      "the backend is called",
      () => callsOf(gateway, model).length,
      (calls) => calls === 1,
    )
  if (state === "trying" || state === "waiting") return { model, client, slotFree }
  if (state === "settling") {
    // Not what its client hears: a gateway that is late reads a short answer at once, and passes it on with its end.
    await eventually(
      "the ledger is asked",
      () => proxy.held,
      (held) => held > 0,
    )
    return { model, client, slotFree }
  }
  await client.until(content.chat)
  if (state === "draining") {
    client.leave()
    await Bun.sleep(40)
  }
  return { model, client, slotFree }
}

/** A script with some parameters set otherwise. */
const merged = (script: string, over: string): string => {
  const parameters = new URLSearchParams(script)
  for (const [name, value] of new URLSearchParams(over)) parameters.set(name, value)
  return parameters.toString()
}

/** What has become of it, as the table says it. */
async function ending({ gateway }: House, { model, client, slotFree }: Scene, left: boolean): Promise<Ending> {
  await Promise.all([left || client.over, slotFree])
  // A call that waited had another before it.
  const others = (await slotFree) === undefined ? 0 : 1
  const rows = () =>
    gateway.sql`select status, charge_micro, absorbed_micro from usage where model = ${model} and part = 0
      order by request_id`.then((found) => [...found])
  const isForwarded = callsOf(gateway, model).length > others
  const records = await eventually(
    "the call is recorded",
    rows,
    (found) => found.length === others + Number(isForwarded),
  )
  const held = () => gateway.sql`select request_id from openings where model = ${model}`.then((found) => found.length)
  await eventually("nothing is held", held, (openings) => openings === 0)
  const record = isForwarded ? records.at(-1) : undefined
  const charge = Number(record?.["charge_micro"] ?? 0)
  const absorbed = Number(record?.["absorbed_micro"] ?? 0)
  return {
    record: (record?.["status"] as Ending["record"] | undefined) ?? "none",
    pays: record === undefined ? "nobody" : charge === 0 ? "house" : absorbed > 0 ? "both" : "customer",
    hears: left ? "nothing more" : heard(client),
  }
}

const heard = ({ status, text }: RawClient): Ending["hears"] => {
  if (status === 429) return "a refusal"
  if (status !== undefined && status !== 200) return "a failure"
  // Without the lengths of its chunks.
  const body = text.slice(text.indexOf("\r\n\r\n") + 4).replaceAll(/(^|\r\n)[0-9a-f]+\r\n/g, "")
  if (!body.includes("data: [DONE]")) return "nothing more"
  return failureIn("chat", body.replaceAll("\r\n", "")) === undefined ? "the whole answer" : "a failure"
}

/** What befalls a call, and whether its client is gone after it. */
type Befalls = (scene: Scene, house: House, state: State) => Promise<boolean>
interface Play {
  readonly env?: GatewayOptions["env"]
  readonly script?: (state: State) => string
  readonly body?: object
  readonly befalls: Befalls
}

const STILL_MS = 1_300
/** The process, and with it the gateway, stands still in the turn in which a connection is read. */
const still = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: () => {
    Bun.sleepSync(STILL_MS)
    return new Response("")
  },
})
afterAll(() => still.stop(true))

const delivered: Befalls = async (_, { proxy }, state) => {
  if (state === "settling") proxy.deliver()
  return state === "draining"
}

const plays: Record<Exclude<Cause, "crash">, Play> = {
  "client leaves": {
    befalls: async (scene, house, state) => {
      scene.client.leave()
      await Bun.sleep(50)
      await delivered(scene, house, state)
      return true
    },
  },
  "client is slow": {
    befalls: async (scene, house, state) => {
      scene.client.pause()
      await Bun.sleep(700)
      await delivered(scene, house, state)
      scene.client.resume()
      return false
    },
  },
  "client half-closes": {
    befalls: async (scene, house, state) => {
      scene.client.halfClose()
      await Bun.sleep(50)
      return await delivered(scene, house, state)
    },
  },
  "backend breaks": {
    script: (state) => (state === "trying" ? "fault=reset&after=preamble" : "fault=reset&after=8"),
    befalls: delivered,
  },
  "backend hangs": {
    env: { UPSTREAM_START_TIMEOUT_MS: "900", UPSTREAM_IDLE_TIMEOUT_MS: "600" },
    script: (state) => `fault=stall&stall=60000&after=${state === "trying" ? "preamble" : "8"}`,
    befalls: delivered,
  },
  "backend lies": { script: () => "counted=999999", befalls: delivered },
  // Each event of the simulator's is as long as its `delta`; 9 MB are over what an event may have by itself.
  "backend echoes": {
    script: () => "delta=9000000&output=3&pace=100",
    body: { messages: [{ role: "user", content: "x".repeat(200_000) }] },
    befalls: delivered,
  },
  deadline: {
    env: {
      CAPACITY_WAIT_MS: "200",
      UPSTREAM_START_TIMEOUT_MS: "300",
      UPSTREAM_ANSWER_TIMEOUT_MS: "900",
      DRAIN_LEFT_MS: "300",
      SETTLE_DEADLINE_MS: "400",
    },
    // Whoever has the slot keeps it for longer than the other waits.
    script: (state) =>
      state === "waiting" ? "ttft=0&output=4000" : state === "relaying" || state === "draining" ? "output=4000" : "",
    befalls: async (scene, house, state) => {
      if (state !== "settling") return await delivered(scene, house, state)
      // What was on its way to the ledger arrives after its client was told the end of the answer, and is taken back.
      await scene.client.over
      house.proxy.deliver()
      await Bun.sleep(300)
      return false
    },
  },
  drain: {
    befalls: async (scene, house, state) => {
      void house.stop()
      await Bun.sleep(150)
      return await delivered(scene, house, state)
    },
  },
  "drain is over": {
    env: { DRAIN_MS: "200" },
    script: (state) =>
      state === "relaying" || state === "draining" ? "output=4000" : state === "trying" ? "ttft=60000" : "",
    befalls: async (scene, house, state) => {
      void house.stop()
      await Bun.sleep(400)
      return await delivered(scene, house, state)
    },
  },
  late: {
    env: {
      CAPACITY_WAIT_MS: "800",
      UPSTREAM_START_TIMEOUT_MS: "800",
      UPSTREAM_IDLE_TIMEOUT_MS: "800",
      DRAIN_LEFT_MS: "900",
      SETTLE_DEADLINE_MS: "800",
    },
    befalls: async (scene, house, state) => {
      const { pid } = house.gateway
      await (pid === undefined ? fetch(still.url) : standStill(pid, STILL_MS))
      return await delivered(scene, house, state)
    },
  },
}

describe.skipIf(hasOwnDatabase).each(Object.entries(plays))("when %s", (cause, { env, script, body, befalls }) => {
  // A drain ends its gateway, so that each of its cells has one of its own.
  const isDrain = cause.startsWith("drain")
  let shared: House
  beforeAll(async () => {
    if (!isDrain) shared = await house(env)
  })
  afterAll(async () => {
    if (!isDrain) await shared[Symbol.asyncDispose]()
  })

  const cells = (Object.keys(states) as State[]).flatMap((state) => {
    const expected = endings[cause as Cause][state]
    return typeof expected === "string" ? [] : [[state, expected] as const]
  })
  /** A settling call holds back what its gateway's other calls settle; these would see each other's standstills and bytes. */
  const isAlone = (state: State) => state === "settling" || isDrain || cause === "late" || cause === "backend echoes"
  const [alone = [], together = []] = [true, false].map((wanted) =>
    cells.filter(([state]) => isAlone(state) === wanted),
  )
  const play = async (state: State, expected: Ending) => {
    const own = isDrain ? await house(env) : shared
    const scene = await enter(state, own, script?.(state), body)
    const left = await befalls(scene, own, state)
    expect(await ending(own, scene, left)).toEqual(expected)
    if (isDrain) await own[Symbol.asyncDispose]()
  }
  const name = "a call that is %s ends as the table says"
  if (together.length > 0) test.concurrent.each(together)(name, play)
  if (alone.length > 0) test.each(alone)(name, play)
})

test("the page on reliability shows the table as it is", async () => {
  const page = await Bun.file(new URL("../../docs/reliability.md", import.meta.url)).text()
  expect(page).toContain(endingsTable())
})
