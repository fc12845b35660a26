/** Bodies that are deep, wide, doubled or strange: what is understood is what is priced and forwarded (decisions §4.6, §7). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { bugs, expectFailure } from "./expect-failure.ts"
import { covers } from "./rows.ts"

let gateway: TestGateway
let person: Person
let key: string

beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(1_000_000)
  key = (await gateway.key(person)).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

const paths = [
  "/v1/chat/completions",
  "/v1/messages",
  "/v1/responses",
  "/v1/messages/count_tokens",
  "/v1/responses/input_tokens",
]
const many = (item: string, count = 190_000) => Array.from({ length: count }, () => item).join(",")
const withMetadata = (inner: string) =>
  `{"model":"plain","messages":[{"role":"user","content":"Hello"}],"metadata":${inner}}`
const nested = (levels: number) => "[".repeat(levels) + "]".repeat(levels)
const chat = (body: string) => gateway.post("/v1/chat/completions", key, body)
const forwarded = () => gateway.simulator.calls.at(-1)?.body ?? {}

describe(covers("4.6"), () => {
  test("64 levels are read, 65 are not, and brackets inside of a string are no levels", async () => {
    expect((await chat(withMetadata(nested(63)))).status).toBe(200)
    await expectFailure(await chat(withMetadata(nested(64))), 400, "request.invalid")
    expect((await chat(withMetadata(JSON.stringify(`\\"${nested(100)}`)))).status).toBe(200)
  })
  test("a million levels are refused in no time, open or closed, on each endpoint", async () => {
    for (const path of paths) {
      for (const body of [nested(1_000_000), "[".repeat(1_000_000), '{"a":'.repeat(1_000_000), "]".repeat(1_000_000)]) {
        await expectFailure(await gateway.post(path, key, body), 400, "request.invalid")
      }
    }
  })
  test("200,000 values are read, 200,001 are not, whatever they are, on each endpoint", async () => {
    // The body, the model, the messages, a message, its role, its content, and the list itself.
    const rest = 7
    for (const value of ["0", "{}", "[ ]", '"a,b"', "null"]) {
      expect((await chat(withMetadata(`[${many(value, 200_000 - rest)}]`))).status).toBe(200)
      for (const path of paths)
        await expectFailure(
          await gateway.post(path, key, withMetadata(`[${many(value, 200_001 - rest)}]`)),
          400,
          "request.invalid",
        )
    }
  })
  test("nearly as many members as may be are no stack overflow", async () => {
    const model = await gateway.model({ format: "chat", context_window: null })
    const bodies = [
      `{"model":"plain","messages":[${many("1")}]}`,
      `{"model":"plain","messages":[${many("{}")}]}`,
      `[${many("0")}]`,
    ]
    for (const body of bodies) await expectFailure(await chat(body), 400, "request.invalid_request")
    const wide = JSON.stringify({
      model,
      messages: [{ role: "user", content: Array.from({ length: 50_000 }, () => ({ type: "text", text: "a" })) }],
      metadata: Object.fromEntries(Array.from({ length: 49_000 }, (_, index) => [`k${index}`, index])),
    })
    expect((await chat(wide)).status).toBe(200)
  })
})

test("a large body is judged against the window before it is translated, a small one after", async () => {
  const upstreams = [{ provider: "simulated", format: "responses", model: "m" } as const]
  const model = await gateway.model({ format: "chat", context_window: 3, upstreams })
  // Stop sequences are nothing that a responses backend can be told.
  const body = (bytes: number) => {
    const around = JSON.stringify({ model, stop: ["."], messages: [{ role: "user", content: "" }] })
    return around.replace('"content":""', `"content":"${"x".repeat(bytes - around.length)}"`)
  }
  await expectFailure(await chat(body(262_144)), 400, "request.unsupported_feature")
  await expectFailure(await chat(body(262_145)), 400, "upstream.context_length_exceeded")
})

describe(covers("7.anew"), () => {
  test("of duplicate keys the last one is what is understood, priced and forwarded", async () => {
    const [dear, cheap] = await Promise.all([
      gateway.model({ format: "messages", output_micro: 1_000_000, script: "input=1&output=1" }),
      gateway.model({ format: "messages", output_micro: 7, script: "input=1&output=1" }),
    ])
    const body = `{"model":"${dear}","max_tokens":1000,"messages":[{"role":"user","content":"one"}],
      "stream":true,"stream":false,"model":"${cheap}","max_tokens":5,"messages":[{"role":"user","content":"two"}]}`
    const response = await gateway.post("/v1/messages", key, body)
    expect(await response.json()).toMatchObject({ model: cheap })
    expect(forwarded()).toMatchObject({ max_tokens: 5, messages: [{ role: "user", content: "two" }] })
    const record = await gateway.usage(person, response.headers.get("x-request-id") ?? "")
    expect(record).toMatchObject({ model: cheap, charge_micro: 1_000 + 7 })
  })
  test("a key named __proto__ is a key, and changes nothing of what is understood", async () => {
    const inner = '{"stream":true,"n":50,"model":"nothing"}'
    const body = `{"__proto__":${inner},"constructor":${inner},"model":"plain","messages":[{"role":"user","content":"Hello","__proto__":{"role":"system"}}]}`
    const response = await chat(body)
    expect(response.headers.get("content-type")).toBe("application/json")
    expect(response.status).toBe(200)
    expect(Object.hasOwn(forwarded(), "__proto__")).toBeFalse()
    expect(response.headers.get("x-dropped-fields")).toBe("__proto__, constructor, messages.__proto__")
    await expectFailure(await chat('{"__proto__":{"model":"plain","messages":[]}}'), 400, "request.invalid")
    expect(Object.hasOwn(Object.prototype, "stream")).toBeFalse()
  })
  test("fields that hold what the client likes travel as they are", async () => {
    const strange = { metadata: { deep: [1, null, "ü", true], __proto__: 1 }, logit_bias: { big: 1e300, tiny: -0.5 } }
    const response = await chat(
      JSON.stringify({ model: "plain", messages: [{ role: "user", content: "Hi" }], ...strange }),
    )
    expect(response.status).toBe(200)
    expect(forwarded()).toMatchObject(strange)
  })
  test("a byte order mark, lone surrogates and a null character are read as JSON has them", async () => {
    const body = String.raw`{"model":"plain","messages":[{"role":"user","content":"\ud800 \u0000 \udfff"}]}`
    expect((await chat(body)).status).toBe(200)
    expect((await chat(`\u{feff}${body}`)).status).toBe(200)
  })
})

test(`${covers("12.7")} null in an optional field is an absent field`, async () => {
  const [messages, responses] = await Promise.all([
    gateway.model({ format: "messages" }),
    gateway.model({ format: "responses" }),
  ])
  const user = [{ role: "user", content: "Hello" }]
  const calls = [
    [
      "/v1/chat/completions",
      {
        model: "plain",
        messages: user,
        stream: null,
        max_tokens: null,
        tools: null,
        n: null,
        response_format: null,
        web_search_options: null,
        stream_options: null,
      },
    ],
    [
      "/v1/messages",
      {
        model: messages,
        max_tokens: 5,
        messages: user,
        stream: null,
        system: null,
        tools: null,
        thinking: null,
        container: null,
        mcp_servers: null,
        output_config: null,
      },
    ],
    [
      "/v1/responses",
      {
        model: responses,
        input: "Hello",
        stream: null,
        tools: null,
        previous_response_id: null,
        conversation: null,
        background: null,
        instructions: null,
        max_output_tokens: null,
      },
    ],
  ] as const
  for (const [path, body] of calls) {
    const response = await gateway.post(path, key, body)
    expect([path, response.status]).toEqual([path, 200])
    expect(response.headers.get("content-type")).toBe("application/json")
    expect(response.headers.has("x-dropped-fields")).toBeFalse()
    expect(Object.entries(forwarded()).filter(([, value]) => value === null)).toEqual([])
  }
})

test("none of this was a bug", () => {
  expect(bugs(gateway)).toEqual([])
})
