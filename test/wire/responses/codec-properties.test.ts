/** What goes out in this format and comes back is the same; and every stream that is written is whole. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import type { AssistantPart, ModelEvent, Prompt, Tool, Turn, UserPart } from "../../../src/language/prompt.ts"
import type { JsonObject } from "../../../src/language/json.ts"
import { decodeRequest, responsesFormat } from "../../../src/wire/responses/format.ts"
import { bytesOf, parse, readers, sent, view } from "../replay.ts"
import { added, decodeSteps, encodeAll, reply, telling } from "./answers.ts"
import { answerView, emptyPrompt, forwarding, must, request } from "./asking.ts"

const told = reply.chain((whole) => telling(whole).map((events) => ({ whole, events })))

const unfinished = (key: string, value: unknown) => (key === "status" ? undefined : value)

describe("an answer", () => {
  test("streamed to a client and read again as a backend's is the same", () => {
    fc.assert(
      fc.property(told, ({ whole, events }) => {
        expect(added(decodeSteps(encodeAll(events, answerView())))).toEqual(whole)
      }),
    )
  })

  test("written whole and read again is the same", () => {
    fc.assert(
      fc.property(reply, (whole) => {
        const body = responsesFormat.client.encodeReply(whole, answerView())
        expect(responsesFormat.backend.decodeReply({ body }, emptyPrompt)).toEqual(whole)
      }),
    )
  })

  test("streamed ends in the same response as written whole, but for what a cut leaves unfinished", () => {
    fc.assert(
      fc.property(told, ({ whole, events }) => {
        const last = parse([bytesOf(sent(encodeAll(events, answerView())))]).at(-1)
        const { response } = JSON.parse(last?.data ?? "") as { response: JsonObject }
        const written = responsesFormat.client.encodeReply(whole, answerView())
        expect(response["status"]).toBe(written["status"] ?? "")
        expect(JSON.parse(JSON.stringify(response, unfinished))).toEqual(
          JSON.parse(JSON.stringify(written, unfinished)),
        )
      }),
    )
  })
})

/** Any events whatever, in any order, with pieces of several calls mixed. */
const anyEvents = fc.array(
  fc.oneof(
    fc.constantFrom<ModelEvent[]>(
      { type: "start", id: "msg_1", usage: undefined },
      { type: "text-delta", text: "" },
      { type: "part-end" },
      { type: "thinking-seal", seal: { by: "messages", data: "sig" } },
      { type: "finish", reason: "length", stopSequence: undefined },
      { type: "tool-call-delta", index: 9, arguments: "x" },
    ),
    fc
      .record({
        type: fc.constantFrom("text-delta" as const, "refusal-delta" as const, "thinking-delta" as const),
        text: fc.string(),
      })
      .map((event): ModelEvent => event),
    fc.record({ index: fc.nat({ max: 2 }), custom: fc.boolean() }).map(({ index, custom }): ModelEvent => ({
      type: "tool-call-start",
      index,
      id: `call_${index}`,
      name: "f",
      custom,
    })),
    fc
      .record({ index: fc.nat({ max: 2 }), arguments: fc.string() })
      .map((piece): ModelEvent => ({ type: "tool-call-delta", ...piece })),
  ),
)

test("whatever the events, the stream counts from 0, opens before it speaks, closes what it opens, and is read as whole", () => {
  fc.assert(
    fc.property(anyEvents, (events) => {
      const encoder = responsesFormat.client.eventEncoder(answerView())
      const steps = [...events, { type: "end" } as const].flatMap((event) => encoder.encode(event))
      const bytes = parse([bytesOf(sent(steps))])
      const open = new Map<string, string>()
      const output: unknown[] = []
      for (const [at, { event, data }] of bytes.entries()) {
        const body = JSON.parse(data) as JsonObject & { item?: { id: string }; item_id?: string; type: string }
        expect(body.type).toBe(event)
        expect(body["sequence_number"]).toBe(at)
        if (event === "response.output_item.added") {
          expect(body["output_index"]).toBe(open.size)
          open.set(body.item?.id ?? "", "open")
        } else if (event === "response.output_item.done") {
          expect(open.get(body.item?.id ?? "")).toBe("open")
          open.set(body.item?.id ?? "", "closed")
          output[Number(body["output_index"])] = body.item
        } else if (body.item_id !== undefined) expect(open.get(body.item_id)).toBe("open")
      }
      expect(bytes.slice(0, 2).map(({ event }) => event)).toEqual(["response.created", "response.in_progress"])
      expect([...open.values()].every((state) => state === "closed")).toBe(true)
      expect(JSON.parse(bytes.at(-1)?.data ?? "").response.output).toEqual(output)
      expect(encoder.position?.()).toMatchObject({ sequence: bytes.length })

      // The format's own reader sees each step as the encoder told it, and its end where it is.
      const reader = readers.responses(view)
      for (const step of steps) {
        const kinds = parse([bytesOf(step.bytes)]).map((event) => reader.read(event).kind)
        expect(kinds.includes("terminal")).toBe(step.kind === "terminal")
        if (step.kind === "content") expect(kinds.at(-1) === "content" || step.bytes === "").toBe(true)
      }
      expect(steps.at(-1)?.kind).toBe("terminal")
      expect(encoder.encode({ type: "text-delta", text: "late" })).toEqual([])
    }),
  )
})

const text = fc.string({ minLength: 1, maxLength: 8 })
const textPart = fc.record({ type: fc.constant("text" as const), text })
const source = fc.record({
  kind: fc.constant("data" as const),
  mediaType: fc.constantFrom("image/png", "application/pdf"),
  base64: fc.base64String(),
})
const inputPart = fc.oneof(
  textPart,
  fc.record({ type: fc.constant("image" as const), source, detail: fc.constantFrom(undefined, "low") }),
  fc.record({ type: fc.constant("document" as const), source, name: fc.constantFrom(undefined, "a.pdf") }),
)
const name = fc.stringMatching(/^[a-z_.]{1,80}$/)
const callId = fc.constantFrom("c1", "c2", "c".repeat(70))
const userPart: fc.Arbitrary<UserPart> = fc.oneof(
  inputPart,
  fc.record({
    type: fc.constant("tool-result" as const),
    callId,
    parts: fc.array(inputPart, { maxLength: 2 }),
    isError: fc.boolean(),
  }),
)
const seal = fc.record({ by: fc.constantFrom("responses" as const, "messages" as const), data: text })
const assistantPart: fc.Arbitrary<AssistantPart> = fc.oneof(
  textPart,
  fc.record({ type: fc.constant("refusal" as const), text }),
  fc.record({ type: fc.constant("thinking" as const), text: fc.string(), seal: fc.option(seal, { nil: undefined }) }),
  fc.record({ type: fc.constant("tool-call" as const), id: callId, name, arguments: text, custom: fc.boolean() }),
)
const turn: fc.Arbitrary<Turn> = fc.oneof(
  fc.record({ role: fc.constant("user" as const), parts: fc.array(userPart, { minLength: 1, maxLength: 3 }) }),
  fc.record({
    role: fc.constant("assistant" as const),
    parts: fc.array(assistantPart, { minLength: 1, maxLength: 3 }),
  }),
  fc.record({ role: fc.constant("system" as const), parts: fc.array(textPart, { minLength: 1, maxLength: 2 }) }),
)
const schema = fc.constant<JsonObject>({ type: "object", properties: {} })
const tool: fc.Arbitrary<Tool> = fc.oneof(
  fc.record({
    type: fc.constant("function" as const),
    name,
    description: fc.option(text, { nil: undefined }),
    parameters: schema,
    strict: fc.constantFrom(undefined, true, false),
  }),
  fc.record({
    type: fc.constant("custom" as const),
    name,
    description: fc.constant(undefined),
    grammar: fc.constant(undefined),
  }),
  fc.record({
    type: fc.constant("web-search" as const),
    options: fc.constantFrom<JsonObject[]>({}, { allowed_domains: ["a.id"], max_uses: 2 }),
  }),
)
const prompt: fc.Arbitrary<Prompt> = fc.record({
  instructions: fc.array(textPart, { maxLength: 2 }),
  // System text before the first turn would be instructions.
  turns: fc
    .array(turn, { maxLength: 5 })
    .map((turns): Turn[] => [{ role: "user", parts: [{ type: "text", text: "Hi" }] }, ...turns]),
  tools: fc.uniqueArray(tool, { maxLength: 3, selector: (one) => (one.type === "web-search" ? "" : one.name) }),
  toolChoice: fc.constantFrom(undefined, { kind: "auto" } as const, { kind: "required" } as const),
  parallelTools: fc.constantFrom(undefined, true, false),
  stopSequences: fc.constant([]),
  sampling: fc.record({
    temperature: fc.constantFrom(undefined, 1),
    topP: fc.constantFrom(undefined, 0.5),
    topK: fc.constant(undefined),
  }),
  output: fc.constantFrom(undefined, { kind: "json" } as const),
  reasoning: fc.option(
    fc.record({
      enabled: fc.boolean(),
      effort: fc.constantFrom(undefined, "low" as const),
      budgetTokens: fc.constantFrom(undefined, 9_000),
      visible: fc.boolean(),
    }),
    { nil: undefined },
  ),
})

/** Written for a backend, and read as if a client had sent it. */
const around = (prompt: Prompt): Prompt => {
  const body = must(responsesFormat.backend.encodePrompt(prompt, request(), forwarding))(forwarding)
  return must(responsesFormat.client.decodePrompt(must(decodeRequest(body))))
}

test("a prompt that is written is one that a client could have sent; read again, it stays what it became", () => {
  fc.assert(
    fc.property(prompt, (prompt) => {
      const once = around(prompt)
      expect(around(once)).toEqual(once)
    }),
  )
})
