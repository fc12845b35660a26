/** How the page sends changes: with a key for each change that is meant, and again when the answer was lost. */
import { describe, expect, test } from "bun:test"
import { loaded } from "./loaded.ts"

const { sender } = await loaded(() => import("../../src/dashboard/api/client.ts"))

type Step = "lost" | "late" | number | "in progress"

/** A server that answers in these steps, and 200 from then on. */
function page(steps: Step[] = []) {
  const sent: (string | null)[] = []
  const pauses: number[] = []
  const limits: (AbortSignal | null | undefined)[] = []
  let time = 0
  let made = 0
  const send = sender({
    fetch: async (_, init) => {
      sent.push(new Headers(init?.headers).get("idempotency-key"))
      limits.push(init?.signal)
      const step = steps.shift() ?? 200
      if (step === "lost") throw new TypeError("Failed to fetch")
      if (step === "late") throw new DOMException("The operation timed out.", "TimeoutError")
      if (step !== "in progress") return new Response(null, { status: step })
      return new Response(null, {
        status: 409,
        headers: { "x-error-code": "idempotency.in_progress", "retry-after": "1" },
      })
    },
    now: () => time,
    pause: async (ms) => void pauses.push(ms),
    newKey: () => `key ${++made}`,
    limit: () => AbortSignal.abort("late"),
  })
  const post = (body = "{}", input = "http://loket/keys", method = "POST") => send(input, { method, body })
  return { send, post, sent, pauses, limits, later: (ms: number) => (time += ms) }
}

describe("a change", () => {
  test("has a key of its own, also when it is the same once more after a success or a refusal", async () => {
    const { post, sent } = page([200, 422, 409, 200])
    for (let time = 0; time < 4; time++) await post()
    await post('{"name":"other"}')
    expect(sent).toEqual(["key 1", "key 2", "key 3", "key 4", "key 5"])
  })

  test("is one change while it is under way", async () => {
    const { post, sent } = page()
    await Promise.all([post(), post(), post()])
    expect(sent).toEqual(["key 1", "key 1", "key 1"])
  })

  test("is sent again with its key when the answer is lost: twice by itself, then by who presses again", async () => {
    const { post, sent, pauses } = page(["lost", "lost", "lost", "lost"])
    expect(await post().catch(String)).toBe("TypeError: Failed to fetch")
    expect(pauses).toEqual([400, 1_500])
    expect(await post()).toMatchObject({ status: 200 })
    await post()
    expect(sent).toEqual(["key 1", "key 1", "key 1", "key 1", "key 1", "key 2"])
  })

  test("that is not answered in time is told so at once, and pressed again it is the same one", async () => {
    const { post, sent, pauses } = page(["late"])
    expect(await post().catch(String)).toBe("TimeoutError: The operation timed out.")
    expect(await post()).toMatchObject({ status: 200 })
    expect([sent, pauses]).toEqual([["key 1", "key 1"], []])
  })

  test("keeps its key over an answer that does not say whether it was carried out, for ten minutes", async () => {
    const { post, sent, later } = page([503, 500, 503])
    await post()
    later(10 * 60_000 - 1)
    await post()
    later(1)
    await post()
    expect(sent).toEqual(["key 1", "key 1", "key 2"])
  })

  test("waits for the one that is being carried out", async () => {
    const { post, sent, pauses } = page(["in progress", "in progress"])
    expect((await post()).status).toBe(200)
    expect(sent).toEqual(["key 1", "key 1", "key 1"])
    expect(pauses).toEqual([1_000, 1_000])
    const stuck = page(Array.from({ length: 20 }, (): Step => "in progress"))
    expect((await stuck.post()).status).toBe(409)
    expect(stuck.sent).toHaveLength(11)
  })

  test("is not sent again by who has gone", async () => {
    const { send, sent } = page(["lost"])
    const gone = send("http://loket/keys", { method: "POST", signal: AbortSignal.abort() })
    expect(await gone.catch(String)).toBe("TypeError: Failed to fetch")
    expect(sent).toEqual(["key 1"])
  })
})

test("each time that something is sent it has a limit of its own, beside that of who asks; a file has none", async () => {
  const { send, post, limits } = page(["lost"])
  await post()
  await send("http://loket/keys")
  await send("http://loket/keys", { signal: new AbortController().signal })
  expect(limits.map((limit) => limit?.aborted)).toEqual([true, true, true, true])
  await send("http://loket/export", {}, { isFile: true })
  expect(limits.at(-1)).toBeUndefined()
  await post("{}", "http://loket/account/export")
  expect(limits.at(-1)).toBeUndefined()
})

test("questions, and signing in and up, carry none and are sent once", async () => {
  const { send, post, sent } = page(["lost"])
  expect(await send("http://loket/keys").catch(String)).toBe("TypeError: Failed to fetch")
  await post("{}", "http://loket/auth/sign-in")
  await post("{}", "http://loket/auth/sign-up")
  expect(sent).toEqual([null, null, null])
})
