/** Each fault, over real HTTP, in all three formats. */
import { describe, expect, test } from "bun:test"
import { connect } from "node:net"
import { until } from "../eventually.ts"
import { ask, at, bodyFor, deltasOf, eventsOf, formats, readAll, simulatorForFile, stream, textOfReply } from "./ask.ts"

const simulator = simulatorForFile()

/** The bytes of one answer as they cross the wire, chunk framing and all. */
const rawStream = (script: string): Promise<string> =>
  new Promise((resolve) => {
    const body = JSON.stringify(bodyFor("chat", script, stream))
    const socket = connect(Number(new URL(simulator.url).port), "127.0.0.1")
    let text = ""
    socket.on("data", (data) => (text += data.toString()))
    socket.on("error", () => undefined)
    socket.on("close", () => resolve(text))
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nHost: sim\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
  })

describe("the end of the chunked body", () => {
  const cleanEnd = /\r\n0\r\n\r\n$/
  test("is there after a whole stream and after a cut one", async () => {
    expect(await rawStream("")).toMatch(cleanEnd)
    const cut = await rawStream("fault=cut&after=2")
    expect(cut).toMatch(cleanEnd)
    expect(cut).not.toContain("[DONE]")
  })

  test("is missing after a reset, wherever it strikes", async () => {
    for (const script of ["fault=reset", "fault=reset&after=2", "fault=late-reset"]) {
      const text = await rawStream(script)
      expect(text).toStartWith("HTTP/1.1 200 OK")
      expect(text).not.toMatch(cleanEnd)
    }
  })

  test("is missing with all else when the connection is refused", async () => {
    expect(await rawStream("fault=refuse")).toBe("")
  })
})

describe.each(formats)("%s", (format) => {
  test.each([400, 401, 403, 404, 408, 413, 429, 500, 503, 529])(
    "status %d has the vendor's error body",
    async (status) => {
      const response = await ask(simulator, format, `fault=status&status=${status}`, stream)
      expect(response.status).toBe(status)
      const body: unknown = await response.json()
      expect(at(body, "error", "message")).toBeString()
      expect(at(body, "error", "type")).toBeString()
      if (format === "messages") expect(at(body, "type")).toBe("error")
      else expect(body).toHaveProperty("error.code")
    },
  )

  test("a status can carry a message, a code and any Retry-After", async () => {
    const script = "fault=status&status=429&retry_after=soon&message=too%20fast&code=my_code"
    const response = await ask(simulator, format, script)
    expect(response.headers.get("retry-after")).toBe("soon")
    const body: unknown = await response.json()
    expect(at(body, "error", "message")).toBe("too fast")
    expect(at(body, "error", format === "messages" ? "type" : "code")).toBe("my_code")
  })

  test("a status can have a body that is not the vendor's", async () => {
    const bodies: string[] = []
    for (const body of ["html", "json", "empty"]) {
      bodies.push(await (await ask(simulator, format, `fault=status&status=502&body=${body}`)).text())
    }
    expect(bodies).toEqual([expect.stringContaining("<html>"), expect.stringMatching(/^\{"detail":/), ""])
  })

  test("times is how many calls are hit, and a reset of the simulator starts anew", async () => {
    const script = "fault=status&status=503&times=2"
    const statuses = async (): Promise<number[]> => {
      const seen: number[] = []
      for (let call = 0; call < 3; call += 1) seen.push((await ask(simulator, format, script)).status)
      return seen
    }
    expect(await statuses()).toEqual([503, 503, 200])
    expect(await statuses()).toEqual([200, 200, 200])
    simulator.reset()
    expect(await statuses()).toEqual([503, 503, 200])
  })

  test("context is told in the vendor's words", async () => {
    const response = await ask(simulator, format, "fault=context", stream)
    expect(response.status).toBe(400)
    const { message, code } = at(await response.json(), "error") as { message: string; code?: string }
    if (format === "messages") expect(message).toBe("prompt is too long: 210000 tokens > 200000 maximum")
    else expect(code).toBe("context_length_exceeded")
  })

  test("unsupported names a parameter", async () => {
    const response = await ask(simulator, format, "fault=unsupported")
    expect(response.status).toBe(400)
    expect(await response.text()).toContain("temperature")
  })

  test("refuse closes before the head", async () => {
    expect(await ask(simulator, format, "fault=refuse").catch((error) => at(error, "code"))).toBe("ECONNRESET")
    expect(simulator.calls[0]?.outcome).toBe("faulted")
  })

  test("silent never answers", async () => {
    const leaving = new AbortController()
    const response = ask(simulator, format, "fault=silent", stream, { signal: leaving.signal }).catch(() => "left")
    await until(() => simulator.calls.length === 1)
    expect(simulator.calls[0]?.outcome).toBe("running")
    leaving.abort()
    expect(await response).toBe("left")
    await until(() => simulator.calls[0]?.outcome === "client-left")
  })

  test("reset breaks the stream after so many deltas", async () => {
    const read = await readAll(await ask(simulator, format, "output=9&fault=reset&after=4", stream))
    expect([read.broken, deltasOf(read.text).length]).toEqual([true, 4])
  })

  test("reset at 0 sends the head and nothing else; at the preamble, what comes before content", async () => {
    const bare = await readAll(await ask(simulator, format, "fault=reset&after=0", stream))
    expect(bare).toEqual({ text: "", broken: true })
    const opened = await readAll(await ask(simulator, format, "fault=reset&after=preamble", stream))
    expect(opened.broken).toBeTrue()
    expect(opened.text).toContain("data:")
    expect(deltasOf(opened.text)).toEqual([])
  })

  test("late-reset leaves out the terminal event alone", async () => {
    const full = eventsOf(await (await ask(simulator, format, "output=3", stream)).text())
    const read = await readAll(await ask(simulator, format, "output=3&fault=late-reset", stream))
    expect(read.broken).toBeTrue()
    expect(eventsOf(read.text)).toHaveLength(full.length - 1)
  })

  test("reset in one piece breaks the body", async () => {
    for (const fault of ["reset", "reset&after=1", "late-reset"]) {
      const read = await readAll(await ask(simulator, format, `fault=${fault}`))
      expect(read.broken).toBeTrue()
      expect(read.text === "").toBe(fault === "reset")
    }
  })

  test("cut ends cleanly without the terminal event", async () => {
    const read = await readAll(await ask(simulator, format, "output=9&fault=cut&after=4", stream))
    expect([read.broken, deltasOf(read.text).length]).toEqual([false, 4])
    expect(read.text).not.toMatch(/\[DONE\]|message_stop|response\.completed/)
    const piece = await readAll(await ask(simulator, format, "fault=cut&after=1"))
    expect(piece.broken).toBeFalse()
    expect(() => JSON.parse(piece.text)).toThrow()
  })

  test("error-event tells the format's own error after so many deltas", async () => {
    const text = await (await ask(simulator, format, "output=9&fault=error-event&after=2", stream)).text()
    expect(deltasOf(text)).toHaveLength(2)
    const last = eventsOf(text).at(-1)
    expect(String(at(last, "error", "message")).toLowerCase()).toContain("overloaded")
    if (format !== "chat") expect(text).toContain("event: error\n")
    const limited = await (await ask(simulator, format, "fault=error-event&error=rate-limited", stream)).text()
    expect(limited).toContain("rate_limit")
  })

  test("error-event in one piece is an error status", async () => {
    const { status } = await ask(simulator, format, "fault=error-event")
    expect(status).toBe(format === "messages" ? 529 : 503)
  })

  test("stall sends nothing for a while and then goes on", async () => {
    const leaving = new AbortController()
    const script = "output=5&fault=stall&after=2&stall="
    const response = await ask(simulator, format, `${script}600000`, stream, { signal: leaving.signal })
    let text = ""
    try {
      for await (const chunk of response.body ?? []) {
        text += new TextDecoder().decode(chunk)
        if (deltasOf(text).length === 2) leaving.abort()
      }
    } catch {}
    expect(deltasOf(text)).toHaveLength(2)
    expect(deltasOf(await (await ask(simulator, format, `${script}2`, stream)).text())).toHaveLength(5)
    const reply = await ask(simulator, format, "fault=stall&after=1&stall=2&text=🚆")
    expect(textOfReply(await reply.json())).toBe("🚆")
  })

  test("garbage is an event, or a body, that is no JSON", async () => {
    const text = await (await ask(simulator, format, "output=3&fault=garbage&after=1", stream)).text()
    const broken = eventsOf(text).filter((event) => typeof event === "string" && event !== "[DONE]")
    expect(broken).toHaveLength(1)
    const response = await ask(simulator, format, "fault=garbage")
    expect(response.status).toBe(200)
    expect(await response.json().catch(() => "no JSON")).toBe("no JSON")
  })

  test("empty ends as it should, with nothing said", async () => {
    const text = await (await ask(simulator, format, "fault=empty", stream)).text()
    expect(deltasOf(text)).toEqual([])
    expect(text).toMatch(/\[DONE\]|message_stop|response\.completed/)
    expect(textOfReply(await (await ask(simulator, format, "fault=empty")).json()) ?? "").toBe("")
  })
})

test("failed is a response that failed, under 200, streamed or not", async () => {
  const text = await (await ask(simulator, "responses", "output=5&fault=failed&after=2&error=server", stream)).text()
  expect(deltasOf(text)).toHaveLength(2)
  const last = eventsOf(text).at(-1)
  expect([at(last, "type"), at(last, "response", "status")]).toEqual(["response.failed", "failed"])
  expect(at(last, "response", "error", "code")).toBe("server_error")
  const response = await ask(simulator, "responses", "fault=failed")
  expect([response.status, at(await response.json(), "status")]).toEqual([200, "failed"])
})
