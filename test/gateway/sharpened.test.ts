import { describe, expect, test } from "bun:test"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { type Offer, type Provider, soleCredential } from "../../src/catalogue/model.ts"
import type { ModelRequest } from "../../src/language/request.ts"
import { connectionFault, send, withClientDetail } from "../../src/upstream/client.ts"
import { classifyBackendError } from "../../src/wire/backend-error.ts"
import type { Json, JsonObject } from "../../src/language/json.ts"

const own: JsonObject = { temperature: 3, messages: [{ content: "x" }], tools: [{ input_schema: { type: "text" } }] }

/** What the client is told of a backend's 400. */
function told(answer: Json, body: JsonObject = own): string {
  const { failure, field } = classifyBackendError(400, answer, new Headers(), 0)
  const asked = { request: { body } as ModelRequest, offer: {} as Offer }
  return withClientDetail({ ...connectionFault(false), failure, field, status: 400 }, asked).failure.message
}
/** Twelve fields, one in the other. */
const FIELDS = "a.b.c.d.e.f.g.h.i.j.k.l".split(".")
const deep = FIELDS.reduceRight<Json>((inner, name) => ({ [name]: inner }), "x") as JsonObject
const rejected = (field: string) => `The model's backend rejected '${field}' of the request.`

describe("the field that a backend's refusal names", () => {
  test.each<[string, Json, string]>([
    ["as a parameter", { error: { message: "Bad.", param: "temperature" } }, rejected("temperature")],
    ["before a colon", { type: "error", error: { message: "temperature: range: 0..1" } }, rejected("temperature")],
    ["by a path", { error: { message: "messages.0.content: must not be x" } }, rejected("messages.0.content")],
    [
      "by brackets",
      { error: { message: "Bad.", param: "tools[0].input_schema.type" } },
      rejected("tools.0.input_schema.type"),
    ],
    ["in steps", { detail: [{ loc: ["body", "messages", 0, "content"], msg: "bad" }] }, rejected("messages.0.content")],
    [
      "as something it has not",
      { error: { message: "Unsupported parameter.", code: "unsupported_parameter", param: "temperature" } },
      "The model's backend does not support 'temperature' of the request.",
    ],
  ])("is told where it stands %s", (_, answer, message) => expect(told(answer)).toBe(message))

  test.each<[string, Json]>([
    ["the client did not send it", { error: { message: "Bad.", param: "top_p" } }],
    ["it is of every object", { error: { message: "Bad.", param: "constructor" } }],
    ["it is a name as long as none", { error: { message: "Bad.", param: "a".repeat(65) } }],
    ["it is no name", { error: { message: "Bad.", param: "temperature is s3cr3t" } }],
    ["it is words before a colon", { error: { message: "the secret: is this" } }],
    ["its steps are endless", { detail: [{ loc: ["body", ...Array<string>(30).fill("messages")], msg: "bad" }] }],
  ])("is not where %s", (_, answer) => expect(told(answer)).toBe("The model's backend rejected the request."))

  test("is told to its tenth step", () => {
    for (const steps of [9, 10, 11, 12]) {
      const param = FIELDS.slice(0, steps).join(".")
      expect(told({ error: { message: "Bad.", param } }, deep)).toBe(
        rejected(FIELDS.slice(0, Math.min(steps, 10)).join(".")),
      )
    }
  })
})

describe("a backend's refusal", () => {
  const provider = { baseUrl: "http://backend", headers: {}, credentials: [soleCredential("X")] } as unknown as Provider
  const call: Parameters<typeof send>[0] = {
    backend: { provider, credential: provider.credentials[0], apiKey: "k" },
    protocol: "chat",
    path: "/v1/chat/completions",
    body: {},
    clientHeaders: new Headers(),
    traceParent: undefined,
    signal: new AbortController().signal,
  }
  /** What it says after so many blank bytes; it has no end. */
  async function refusedAfter(blank: number) {
    const said = JSON.stringify({ error: { message: "Long.", code: "context_length_exceeded" } })
    const pieces = [" ".repeat(blank), said]
    const read = { pieces: 0, left: false }
    const body = new ReadableStream<Uint8Array>(
      {
        pull: (controller) => controller.enqueue(new TextEncoder().encode(pieces[read.pieces++] ?? " ".repeat(1_024))),
        cancel: () => void (read.left = true),
      },
      { highWaterMark: 0 },
    )
    const fetch = async () => new Response(body, { status: 400 })
    const fault = await send(call, { fetch, clock: new VirtualClock() })
    return { ...read, code: "failure" in fault ? fault.failure.code : undefined }
  }

  test("is read for 65,536 bytes, and what it says there is understood; then its connection is left", async () => {
    expect(await refusedAfter(65_535)).toEqual({ pieces: 2, left: true, code: "upstream.context_length_exceeded" })
    expect(await refusedAfter(65_536)).toEqual({ pieces: 1, left: true, code: "upstream.invalid_request" })
  })
})
