import { describe, expect, test } from "bun:test"
import type { JsonObject } from "../../../src/language/json.ts"
import type { AssistantPart, Prompt, Tool, UserPart } from "../../../src/language/prompt.ts"
import type { Forwarding, ModelRequest } from "../../../src/language/request.ts"
import { Failure } from "../../../src/failure/failure.ts"
import { responsesFormat } from "../../../src/wire/responses/format.ts"
import { emptyPrompt, forwarding, must, request } from "./asking.ts"

const encode = (prompt: Partial<Prompt>, asked: Partial<ModelRequest> = {}, changes: Partial<Forwarding> = {}) => {
  const target = { ...forwarding, stream: asked.stream ?? false, ...changes }
  const written = responsesFormat.backend.encodePrompt(
    { ...emptyPrompt, ...prompt },
    { ...request(), ...asked },
    target,
  )
  return must(written)(target)
}
const says = (...parts: AssistantPart[]): Partial<Prompt> => ({ turns: [{ role: "assistant", parts }] })
const gives = (...parts: UserPart[]): Partial<Prompt> => ({ turns: [{ role: "user", parts }] })
const schema = { type: "object", properties: {} }
const tool: Tool = { type: "function", name: "f", description: undefined, parameters: schema, strict: undefined }

const written: readonly (readonly [fact: string, prompt: Partial<Prompt>, body: JsonObject])[] = [
  ["nothing is stored, and the limit is written", {}, { store: false, max_output_tokens: 4_000, model: "vendor-m" }],
  [
    "instructions are one text",
    {
      instructions: [
        { type: "text", text: "A" },
        { type: "text", text: "B", cache: { ttl: "5m" } },
      ],
    },
    { instructions: "A\n\nB" },
  ],
  [
    "a coding agent's billing header, which changes with every call, is left out",
    {
      instructions: [
        { type: "text", text: "x-anthropic-billing-header: cc_version=2.1; cch=1f;" },
        { type: "text", text: "A" },
      ],
    },
    { instructions: "A" },
  ],
  [
    "a document's title becomes the name of a file",
    gives(
      { type: "document", source: { kind: "data", mediaType: "application/pdf", base64: "AA" }, name: "Q3 report 2.5" },
      { type: "document", source: { kind: "data", mediaType: "text/plain", base64: "AA" }, name: undefined },
    ),
    {
      input: [
        {
          type: "message",
          role: "user",
          content: [
            { type: "input_file", filename: "Q3 report 2.5.pdf", file_data: "data:application/pdf;base64,AA" },
            { type: "input_file", filename: "document.txt", file_data: "data:text/plain;base64,AA" },
          ],
        },
      ],
    },
  ],
  [
    "instructions alone are the input, which may not be empty",
    { instructions: [{ type: "text", text: "A" }], turns: [] },
    { input: [{ type: "message", role: "developer", content: [{ type: "input_text", text: "A" }] }] },
  ],
  [
    "a result is told with its kind of call, shortened ids meet, a failure is marked, and the user speaks after it",
    {
      turns: [
        {
          role: "assistant",
          parts: [
            { type: "tool-call", id: "c1", name: "patch", arguments: "*** x", custom: true },
            { type: "tool-call", id: "c2", name: "f", arguments: "{}", custom: false },
          ],
        },
        {
          role: "user",
          parts: [
            { type: "tool-result", callId: "c1", parts: [{ type: "text", text: "ok" }], isError: false },
            { type: "tool-result", callId: "c2", parts: [{ type: "text", text: "no file" }], isError: true },
            { type: "text", text: "Go on" },
          ],
        },
      ],
    },
    {
      input: [
        { type: "custom_tool_call", call_id: "c1", name: "patch", input: "*** x" },
        { type: "function_call", call_id: "c2", name: "f", arguments: "{}" },
        { type: "custom_tool_call_output", call_id: "c1", output: "ok" },
        { type: "function_call_output", call_id: "c2", output: "[The tool failed]\nno file" },
        { type: "message", role: "user", content: [{ type: "input_text", text: "Go on" }] },
      ],
    },
  ],
  [
    "images in a result stay in it",
    gives({
      type: "tool-result",
      callId: "c",
      parts: [{ type: "image", source: { kind: "data", mediaType: "image/png", base64: "AA" } }],
      isError: false,
    }),
    {
      input: [
        {
          type: "function_call_output",
          call_id: "c",
          output: [{ type: "input_image", image_url: "data:image/png;base64,AA", detail: "auto" }],
        },
      ],
    },
  ],
  [
    "documents: data with a name, addresses, text",
    gives(
      { type: "document", source: { kind: "data", mediaType: "application/pdf", base64: "JV" }, name: undefined },
      { type: "document", source: { kind: "url", url: "https://example.com/a.pdf" }, name: "a.pdf" },
      { type: "document", source: { kind: "text", text: "body" }, name: "notes" },
    ),
    {
      input: [
        {
          type: "message",
          role: "user",
          content: [
            { type: "input_file", filename: "document.pdf", file_data: "data:application/pdf;base64,JV" },
            { type: "input_file", file_url: "https://example.com/a.pdf" },
            { type: "input_text", text: "notes\n\nbody" },
          ],
        },
      ],
    },
  ],
  [
    "the backend's own thinking goes back to it; what others sealed, or nobody, does not",
    says(
      { type: "thinking", text: "mine", seal: { by: "responses", data: "gAA" } },
      { type: "thinking", text: "theirs", seal: { by: "messages", data: "sig" } },
      { type: "thinking", text: "open", seal: undefined },
      { type: "text", text: "So" },
      { type: "refusal", text: "no" },
    ),
    {
      input: [
        { type: "reasoning", summary: [{ type: "summary_text", text: "mine" }], encrypted_content: "gAA" },
        {
          type: "message",
          role: "assistant",
          content: [
            { type: "output_text", text: "So", annotations: [] },
            { type: "refusal", refusal: "no" },
          ],
        },
      ],
    },
  ],
  [
    "a function says whether it is strict",
    { tools: [tool] },
    { tools: [{ type: "function", name: "f", parameters: schema, strict: false }] },
  ],
  [
    "a custom tool and a search are the backend's own, a choice of each too",
    {
      tools: [
        {
          type: "custom",
          name: "patch",
          description: "P",
          grammar: { type: "grammar", syntax: "lark", definition: "x" },
        },
        {
          type: "web-search",
          options: {
            allowed_domains: ["a.id"],
            max_uses: 2,
            user_location: { type: "approximate", approximate: { country: "ID" } },
          },
        },
      ],
      toolChoice: { kind: "tool", name: "patch" },
      parallelTools: false,
    },
    {
      tools: [
        {
          type: "custom",
          name: "patch",
          description: "P",
          format: { type: "grammar", syntax: "lark", definition: "x" },
        },
        {
          type: "web_search",
          filters: { allowed_domains: ["a.id"] },
          user_location: { type: "approximate", country: "ID" },
        },
      ],
      tool_choice: { type: "custom", name: "patch" },
      parallel_tool_calls: false,
      max_tool_calls: 2,
    },
  ],
  [
    "a choice of the search",
    { tools: [{ type: "web-search", options: {} }], toolChoice: { kind: "tool", name: "web_search" } },
    { tool_choice: { type: "web_search" } },
  ],
  [
    "a schema gets the name that is required, of the characters that are taken",
    { output: { kind: "schema", name: "my answer", description: undefined, schema, strict: true } },
    { text: { format: { type: "json_schema", name: "my_answer", schema, strict: true } } },
  ],
  [
    "a schema without a name",
    { output: { kind: "schema", name: undefined, description: undefined, schema, strict: undefined } },
    { text: { format: { type: "json_schema", name: "answer", schema } } },
  ],
  [
    "any JSON, and the word that the backend looks for in the input alone",
    { output: { kind: "json" }, instructions: [{ type: "text", text: "Answer in JSON" }] },
    {
      text: { format: { type: "json_object" } },
      input: [
        { type: "message", role: "developer", content: [{ type: "input_text", text: "Answer in JSON" }] },
        { type: "message", role: "user", content: [{ type: "input_text", text: "Hi" }] },
      ],
    },
  ],
  [
    "reasoning asks for its sealed form, which is all that comes back of it",
    { reasoning: { enabled: true, effort: "high", budgetTokens: undefined, visible: true } },
    { reasoning: { effort: "high", summary: "auto" }, include: ["reasoning.encrypted_content"] },
  ],
  [
    "a small budget is a low effort",
    { reasoning: { enabled: true, effort: undefined, budgetTokens: 2_000, visible: false } },
    { reasoning: { effort: "low" } },
  ],
  [
    "a middling budget is a medium effort",
    { reasoning: { enabled: true, effort: undefined, budgetTokens: 8_000, visible: false } },
    { reasoning: { effort: "medium" } },
  ],
  [
    "a large budget is a high effort",
    { reasoning: { enabled: true, effort: undefined, budgetTokens: 32_000, visible: false } },
    { reasoning: { effort: "high" } },
  ],
  [
    "no reasoning",
    { reasoning: { enabled: false, effort: undefined, budgetTokens: undefined, visible: false } },
    { reasoning: { effort: "none" } },
  ],
  [
    "sampling, without what the format has no word for",
    { sampling: { temperature: 1.5, topP: 0.5, topK: 5 } },
    { temperature: 1.5, top_p: 0.5 },
  ],
]

describe("to a responses backend is written:", () => {
  for (const [fact, prompt, body] of written) test(fact, () => expect(encode(prompt)).toMatchObject(body))

  test("nothing that was not asked for", () =>
    expect(Object.keys(encode({})).sort()).toEqual(["input", "max_output_tokens", "model", "service_tier", "store"]))
  test("a stream only where one is asked for", () => expect(encode({}, { stream: true })["stream"]).toBe(true))
  test("no parameter that the model does not take", () => {
    const sampling = { temperature: 1, topP: 1, topK: 1 }
    const body = encode({ sampling }, {}, { strip: ["temperature", "top_p"] })
    expect(body).not.toHaveProperty("temperature")
    expect(body).not.toHaveProperty("top_p")
  })
  test("never a limit under the least that the backend takes, and else never one over the client's", () => {
    expect(encode({}, { maxOutputTokens: 1 })["max_output_tokens"]).toBe(responsesFormat.backend.minAnswerTokens ?? 0)
    expect(encode({}, { maxOutputTokens: 17 })["max_output_tokens"]).toBe(17)
    expect(encode({}, { maxOutputTokens: 9_000 })["max_output_tokens"]).toBe(4_000)
  })
  test("an id that is too long is shortened, for a call and its result alike", () => {
    const id = "call_".padEnd(90, "x")
    const { input } = encode({
      turns: [
        { role: "assistant", parts: [{ type: "tool-call", id, name: "f", arguments: "{}", custom: false }] },
        { role: "user", parts: [{ type: "tool-result", callId: id, parts: [], isError: false }] },
      ],
    })
    const ids = (input as JsonObject[]).map((item) => item["call_id"])
    expect(ids[0]).toBe(ids[1] ?? "")
    expect(ids[0]).toMatch(/^[\w-]{1,64}$/)
  })
  test("who asks, by the gateway's own name of them alone", () =>
    expect(encode({}, { endUser: "opaque", body: { user: "raw" } })["safety_identifier"]).toBe("opaque"))
  test("a name that the backend does not take, with a way back", () => {
    const prompt: Prompt = { ...emptyPrompt, tools: [{ ...tool, name: "fs.read" }] }
    const [sent] = encode(prompt)["tools"] as { name: string }[]
    expect(sent?.name).toMatch(/^[\w-]+$/)
    const output = [{ type: "function_call", call_id: "c", name: sent?.name ?? "", arguments: "{}" }]
    expect(must(responsesFormat.backend.decodeReply({ body: { output } }, prompt)).parts).toMatchObject([
      { name: "fs.read" },
    ])
  })
})

const refused: readonly (readonly [fact: string, prompt: Partial<Prompt>, asked: Partial<ModelRequest>])[] = [
  ["stop sequences", { stopSequences: ["END"] }, {}],
  ["several answers", {}, { choices: 2 }],
  ["a search that leaves domains out", { tools: [{ type: "web-search", options: { blocked_domains: ["a.id"] } }] }, {}],
]

describe("for a responses backend is refused, with a way out:", () => {
  for (const [fact, prompt, asked] of refused)
    test(fact, () => {
      const body = responsesFormat.backend.encodePrompt(
        { ...emptyPrompt, ...prompt },
        { ...request(), ...asked },
        forwarding,
      )
      if (!(body instanceof Failure)) throw new Error("it was written")
      expect(body.code).toBe("request.unsupported_feature")
      expect(body.hint).toBeString()
    })
})
