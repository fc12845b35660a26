import { describe, expect, test } from "bun:test"
import type { JsonObject } from "../../../src/language/json.ts"
import { bedrockError } from "../../../src/upstream/bedrock.ts"
import { bedrockFamily, bedrockPath, invokeBody, refuseInvoke } from "../../../src/wire/bedrock/invoke.ts"

const hello = [{ role: "user", content: "Hello" }]
const body = (fields: JsonObject, betas: string | null = null) =>
  invokeBody({ model: "anthropic.claude-opus-4-8", max_tokens: 9, messages: hello, ...fields }, betas)

const said = (content: JsonObject[]) => refuseInvoke({ messages: [{ role: "user", content }] })?.code
const kind = (type: string) => new Headers({ "x-amzn-errortype": type })

describe("a model's name", () => {
  test.each([
    ["anthropic.claude-opus-4-8", "claude"],
    ["global.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude"],
    ["arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-5", "claude"],
    ["arn:aws:bedrock:us-east-1:1:application-inference-profile/a1#anthropic.claude-opus-5", "claude"],
    ["us.amazon.nova-pro-v1:0", "nova"],
    ["us.amazon.nova-2-lite-v1:0", "nova-2"],
    ["openai.gpt-oss-120b-1:0", "gpt-oss"],
    ["deepseek.v3-v1:0", "other"],
    ["arn:aws:bedrock:us-east-1:1:application-inference-profile/a1", "other"],
  ] as const)("%s is of family %s", (name, family) => expect(bedrockFamily(name)).toBe(family))

  test("is one segment of the path, without what only tells what it is", () => {
    expect(bedrockPath("a.b-v1:0", "invoke", false)).toBe("/model/a.b-v1%3A0/invoke")
    expect(bedrockPath("a.b-v1:0", "invoke", true)).toBe("/model/a.b-v1%3A0/invoke-with-response-stream")
    expect(bedrockPath("arn:x/y(1)#anthropic.c", "converse", false)).toBe("/model/arn%3Ax%2Fy%281%29/converse")
    expect(bedrockPath("a.b", "converse", true)).toBe("/model/a.b/converse-stream")
  })
})

describe("the envelope of InvokeModel", () => {
  test("holds the version, and neither model nor stream", () => {
    expect(body({ stream: true })).toEqual({ anthropic_version: "bedrock-2023-05-31", max_tokens: 9, messages: hello })
  })

  test("holds the betas that Bedrock knows, by its names, each once", () => {
    const asked =
      "interleaved-thinking-2025-05-14, advanced-tool-use-2025-11-20,tool-search-tool-2025-10-19,oauth-2025-04-20"
    expect(body({}, asked)["anthropic_beta"]).toEqual([
      "interleaved-thinking-2025-05-14",
      "tool-search-tool-2025-10-19",
      "tool-examples-2025-10-29",
    ])
    expect(body({}, "oauth-2025-04-20")["anthropic_beta"]).toBeUndefined()
  })

  test("adds the betas of what is still one there", () => {
    const effort = { output_config: { effort: "low" } }
    expect(body({ ...effort, model: "anthropic.claude-opus-4-5-20251101-v1:0" })["anthropic_beta"]).toEqual([
      "effort-2025-11-24",
    ])
    expect(body(effort)["anthropic_beta"]).toBeUndefined()
    const tools = [{ type: "tool_search_tool_regex_20251119", name: "tool_search_tool_regex" }]
    expect(body({ tools })).toMatchObject({ anthropic_beta: ["tool-search-tool-2025-10-19"], tools })
  })

  test("keeps the answer's schema and effort, and no other wish of the kind", () => {
    const format = { type: "json_schema", schema: {} }
    expect(body({ output_config: { effort: "low", task_budget: 7, format } })["output_config"]).toEqual({
      effort: "low",
      format,
    })
    expect(body({ output_format: format })["output_config"]).toEqual({ format })
    expect(body({ output_config: { task_budget: 7 } })["output_config"]).toBeUndefined()
  })

  test("keeps edits of the context with their beta alone", () => {
    const context_management = { edits: [] }
    expect(body({ context_management }, "context-management-2025-06-27")).toMatchObject({ context_management })
    expect(body({ context_management })["context_management"]).toBeUndefined()
  })

  test("keeps of cache marks what Bedrock knows, and a schema as it is", () => {
    const cache_control = { type: "ephemeral", ttl: "5m", scope: "global" }
    const known = { type: "ephemeral", ttl: "5m" }
    const input_schema = { type: "object", properties: { cache_control } }
    const inner = { type: "text", text: "Rain" }
    const written = body({
      tools: [{ name: "t", input_schema, cache_control }],
      messages: [
        {
          role: "user",
          content: [{ type: "tool_result", tool_use_id: "a", content: [{ ...inner, cache_control }], cache_control }],
        },
      ],
    })
    expect(written["tools"]).toEqual([{ name: "t", input_schema, cache_control: known }])
    expect(written["messages"]).toEqual([
      {
        role: "user",
        content: [
          {
            type: "tool_result",
            tool_use_id: "a",
            content: [{ ...inner, cache_control: known }],
            cache_control: known,
          },
        ],
      },
    ])
  })

  test("puts a mark on the whole request on its last block", () => {
    const cache_control = { type: "ephemeral" }
    expect(body({ cache_control })["messages"]).toEqual([
      { role: "user", content: [{ type: "text", text: "Hello", cache_control }] },
    ])
  })

  test("puts a mark on the whole request on its last block, and keeps all that stands before it", () => {
    const cache_control = { type: "ephemeral" }
    const said = { role: "assistant", content: [{ type: "text", text: "Hi." }] }
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "aGk=" } }
    const look = { type: "text", text: "Look." }
    const messages = [...hello, said, { role: "user", content: [image, look] }]
    expect(body({ cache_control, messages })["messages"]).toEqual([
      ...hello,
      said,
      { role: "user", content: [image, { ...look, cache_control }] },
    ])
    const empty = [...hello, { role: "user", content: [] }]
    expect(body({ cache_control, messages: empty })["messages"]).toEqual(empty)
  })

  test("keeps of a tool what its betas make known, and all that the vendor's own say", () => {
    const own = { name: "t", input_schema: { type: "object" }, strict: true }
    const more = { defer_loading: true, input_examples: [{}], eager_input_streaming: true, allowed_callers: ["direct"] }
    const sent = (betas: string | null) => body({ tools: [{ ...own, ...more, x_new: 1 }] }, betas)["tools"]
    expect(sent(null)).toEqual([own])
    expect(sent("tool-examples-2025-10-29")).toEqual([{ ...own, input_examples: [{}] }])
    expect(sent("advanced-tool-use-2025-11-20, fine-grained-tool-streaming-2025-05-14")).toEqual([
      { ...own, defer_loading: true, input_examples: [{}], eager_input_streaming: true },
    ])
    const bash = { type: "bash_20250124", name: "bash", x_new: 1 }
    expect(body({ tools: [{ ...bash, allowed_callers: ["direct"] }] })["tools"]).toEqual([bash])
  })

  test("leaves out a web search, and with the last tool the choice among them", () => {
    const search = { type: "web_search_20250305", name: "web_search" }
    const own = { name: "t", input_schema: { type: "object" } }
    const tool_choice = { type: "auto" }
    expect(body({ tools: [search, own], tool_choice })).toMatchObject({ tools: [own], tool_choice })
    expect(Object.keys(body({ tools: [search], tool_choice }))).toEqual(["anthropic_version", "max_tokens", "messages"])
  })

  test("leaves thinking and system as they are", () => {
    const thinking = { type: "thinking", thinking: "Hm.", signature: "c2ln" }
    const messages = [...hello, { role: "assistant", content: [thinking] }, ...hello]
    expect(body({ system: "Be kind.", messages })).toMatchObject({ system: "Be kind.", messages })
  })

  test("gives system text in mid-conversation to the user, in either shape", () => {
    const messages = [
      ...hello,
      { role: "system", content: "Be brief." },
      { role: "system", content: [{ type: "text", text: "Be kind." }] },
    ]
    expect(body({ messages })["messages"]).toEqual([
      ...hello,
      { role: "user", content: "<system>\nBe brief.\n</system>" },
      { role: "user", content: [{ type: "text", text: "<system>\nBe kind.\n</system>" }] },
    ])
  })

  test("has no room for what would have to be fetched, within a tool's result neither", () => {
    const image = { type: "image", source: { type: "url", url: "https://example.com/a.png" } }
    const data = { type: "image", source: { type: "base64", media_type: "image/png", data: "aGk=" } }
    expect(said([image])).toBe("request.unsupported_feature")
    expect(said([{ type: "tool_result", content: [image] }])).toBe("request.unsupported_feature")
    expect(said([data])).toBeUndefined()
  })
})

describe("an error of Bedrock's", () => {
  test("tells its kind in a header or in the body", () => {
    const told = { status: 429, body: { error: { type: "rate_limit_error", message: "Slow" } } }
    expect(bedrockError(400, { message: "Slow" }, kind("ThrottlingException:http://internal.amazon.com/"))).toEqual(
      told,
    )
    expect(bedrockError(400, { Message: "Slow", __type: "com.amazon#ThrottlingException" }, new Headers())).toEqual(
      told,
    )
  })

  test.each([
    ["ServiceQuotaExceededException", 400, "", 429],
    ["ModelNotReadyException", 429, "", 503],
    ["ModelErrorException", 424, "", 500],
    ["ExpiredTokenException", 400, "", 403],
    ["ValidationException", 400, "The provided model identifier is invalid.", 404],
    ["ValidationException", 400, "Invocation of model ID a with on-demand throughput isn’t supported.", 404],
    ["ValidationException", 400, "temperature: too high", 400],
    ["SomethingNewException", 418, "", 418],
  ] as const)("%s of %i (%s) is judged as %i", (type, status, message, judged) => {
    expect(bedrockError(status, { message }, kind(type)).status).toBe(judged)
  })

  test("that is no JSON keeps its status and words", () => {
    expect(bedrockError(503, "<html>busy</html>", new Headers())).toEqual({
      status: 503,
      body: { error: { type: "", message: "<html>busy</html>" } },
    })
  })
})
