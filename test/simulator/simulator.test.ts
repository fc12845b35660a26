/** The server and its journal. */
import { describe, expect, test } from "bun:test"
import { createServer } from "node:http"
import { connect } from "node:net"
import { Client } from "../../src/simulator/play.ts"
import { startSimulator } from "../../src/simulator/simulator.ts"
import { until } from "../eventually.ts"
import { ask, formats, readAll, simulatorForFile, stream } from "./ask.ts"

const simulator = simulatorForFile()

const saidUnder = async (seed: number): Promise<string> => {
  const seeded = startSimulator({ seed })
  const reply: unknown = await (await ask(seeded, "messages", "output=9")).json()
  await seeded.stop()
  return JSON.stringify(reply)
}

test("an address of IPv6 stands in brackets, as an URL has it", async () => {
  const here = startSimulator({ hostname: "::1" })
  expect(here.url).toMatch(/^http:\/\/\[::1\]:\d+$/)
  expect((await ask(here, "messages", "output=9")).status).toBe(200)
  await here.stop()
})

describe("the journal", () => {
  test("keeps what was asked and how it ended", async () => {
    const headers = { authorization: "Bearer sk-upstream" }
    await (await ask(simulator, "chat", "output=2", { top_k: 3 }, { headers })).text()
    const [call] = simulator.calls
    expect(call).toMatchObject({ path: "/v1/chat/completions", model: "sim?output=2", outcome: "finished" })
    expect(call?.headers["authorization"]).toBe("Bearer sk-upstream")
    expect(call?.body?.["top_k"]).toBe(3)
    expect(call?.script?.output).toBe(2)
    expect(call?.endedAt).toBeGreaterThanOrEqual(call?.startedAt ?? Infinity)
  })

  test("tells a whole answer from a faulted one and from one that the client left", async () => {
    await (await ask(simulator, "chat", "", stream)).text()
    await readAll(await ask(simulator, "chat", "fault=cut&after=1", stream))
    const leaving = new AbortController()
    await ask(simulator, "chat", "pace=600000", stream, { signal: leaving.signal })
    expect(simulator.calls.map((call) => call.outcome)).toEqual(["finished", "faulted", "running"])
    leaving.abort()
    await until(() => simulator.calls[2]?.outcome === "client-left")
  })

  test("knows when the client left an answer that it had not yet begun", async () => {
    const leaving = new AbortController()
    const response = ask(simulator, "messages", "ttft=600000", {}, { signal: leaving.signal }).catch(() => "left")
    await until(() => simulator.calls.length === 1)
    leaving.abort()
    expect(await response).toBe("left")
    await until(() => simulator.calls[0]?.outcome === "client-left")
  })

  test("keeps neither headers nor bodies when it is off", async () => {
    const quiet = startSimulator({ journal: false })
    await (await ask(quiet, "chat")).text()
    expect(quiet.calls[0]).toMatchObject({ body: undefined, headers: {}, outcome: "finished" })
    await quiet.stop()
  })

  test("is empty after a reset", async () => {
    await (await ask(simulator, "chat")).text()
    simulator.reset()
    expect(simulator.calls).toEqual([])
  })
})

describe("the server", () => {
  test("is healthy, and has no other paths", async () => {
    expect(await (await fetch(`${simulator.url}/healthz`)).json()).toEqual({ status: "ok" })
    expect((await fetch(`${simulator.url}/v1/images/generations`, { method: "POST" })).status).toBe(404)
    expect((await fetch(`${simulator.url}/v1/messages`)).status).toBe(404)
  })

  test("takes a path with a query, as coding agents send it", async () => {
    const body = JSON.stringify({ model: "sim", max_tokens: 9, messages: [{ role: "user", content: "hi" }] })
    expect((await fetch(`${simulator.url}/v1/messages?beta=true`, { method: "POST", body })).status).toBe(200)
  })

  test("says the same things under the same seed, and others under another", async () => {
    expect(await saidUnder(4)).toBe(await saidUnder(4))
    expect(await saidUnder(4)).not.toBe(await saidUnder(5))
  })

  test("stops with calls still open, and frees its port", async () => {
    const first = startSimulator()
    const port = Number(new URL(first.url).port)
    const open = ask(first, "chat", "fault=silent").catch(() => "closed")
    await until(() => first.calls.length === 1)
    await first.stop()
    expect(await open).toBe("closed")
    const second = startSimulator({ port })
    expect((await ask(second, "chat")).status).toBe(200)
    await second.stop()
  })

  test("an answer much larger than any buffer arrives whole, in every format", async () => {
    for (const format of formats) {
      const text = await (await ask(simulator, format, "output=40&delta=65536", stream)).text()
      expect(text.length).toBeGreaterThan(40 * 65_536)
    }
  })
})

test("a caller that does not read holds back what is written to it", async () => {
  const pieces = 4000
  let written = 0
  const server = createServer((_, response) => {
    const client = new Client(response)
    client.head(200, {})
    void (async () => {
      for (; written < pieces; written += 1) await client.put("x".repeat(65_536))
      await client.end()
    })()
  })
  server.listen(0, "127.0.0.1")
  const address = server.address()
  const socket = connect(typeof address === "object" ? (address?.port ?? 0) : 0, "127.0.0.1")
  socket.write("GET / HTTP/1.1\r\nHost: sim\r\nConnection: close\r\n\r\n")
  await new Promise((resolve) => socket.once("data", resolve))
  socket.pause()
  let before = -1
  while (written !== before) {
    before = written
    await Bun.sleep(50)
  }
  expect(written).toBeLessThan(pieces)
  socket.on("data", () => undefined)
  socket.resume()
  await new Promise((resolve) => socket.once("close", resolve))
  expect(written).toBe(pieces)
  server.close()
})
