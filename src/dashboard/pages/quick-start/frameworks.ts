/** What others have built on the formats, to be called from code. */
import type { Client } from "./client.ts"

export const frameworks: readonly Client[] = [
  {
    id: "ai-sdk",
    name: "AI SDK",
    seen: {
      tried: "`ai` 7.0.173, `@ai-sdk/openai` 4.0.118, `@ai-sdk/anthropic` 4.0.105, `@ai-sdk/openai-compatible` 3.0.92",
    },
    formats: ["chat", "messages", "responses"],
    example: "deepseek-v3.2",
    snippets: [
      {
        title: "TypeScript",
        language: "ts",
        code: `import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { generateText } from "ai"

const settings = { baseURL: "<BASE>/v1", apiKey: "<API_KEY>" }
const loket = createOpenAICompatible({ ...settings, name: "loket", includeUsage: true })

const { text } = await generateText({ model: loket("<MODEL>"), prompt: "Halo, Loket!" })
console.log(text)

// Messages: createAnthropic(settings)("claude-sonnet-5-5")
// Responses, with providerOptions: { openai: { store: false } }: createOpenAI(settings)("gpt-6.1-sol")`,
      },
    ],
    notes: {
      id: [
        "Alamatnya berakhir dengan `/v1` untuk ketiga format, juga messages.",
        "Pada responses beri `providerOptions: { openai: { store: false } }`. Tanpa itu, langkah kedua sebuah loop alat ditolak dengan `request.unsupported_feature`.",
        "Tanpa `includeUsage: true`, stream openai-compatible tidak memuat pemakaian.",
        "Pada messages, SDK membatasi jawaban model yang tidak dikenalnya menjadi 4.096 token; atur `maxOutputTokens`.",
        'Objek (`Output.object`): `supportsStructuredOutputs: true` untuk openai-compatible, `providerOptions: { anthropic: { structuredOutputMode: "outputFormat" } }` untuk model yang tidak dikenal penyedia anthropic. Model dengan penyedia berformat messages hanya melayaninya pada messages.',
        'Kesalahan dengan status (`APICallError`) hanya menyebut nama statusnya, misalnya `Bad Request`: alasannya ada di `error.responseBody`, kodenya di `error.responseHeaders["x-error-code"]`.',
        "Loop alat juga sudah dicoba dengan `ai` 4, 5, dan 6. Pada responses, `@ai-sdk/openai` sebelum versi 3 melewatkan `response.failed`: stream yang gagal berakhir dengan alasan `unknown`, tanpa kesalahan. Dengan versi itu pakailah `openai.chat()`.",
      ],
      en: [
        "The address ends in `/v1` for all three formats, messages among them.",
        "On responses pass `providerOptions: { openai: { store: false } }`. Without it the provider names what was said before by ids that only a backend with a memory knows, and the second step of a loop is refused with `request.unsupported_feature`.",
        "Without `includeUsage: true` a stream of openai-compatible has no usage.",
        "On messages the SDK limits the answer to 4,096 tokens for models that it does not know; set `maxOutputTokens`.",
        'Objects (`Output.object`): `supportsStructuredOutputs: true` for openai-compatible, `providerOptions: { anthropic: { structuredOutputMode: "outputFormat" } }` for models that the anthropic provider does not know. Models with a backend of the messages format serve them on messages only.',
        'An error with a status (`APICallError`) says the name of its status alone, such as `Bad Request`: why is in `error.responseBody`, the code in `error.responseHeaders["x-error-code"]`.',
        "Loops of tools were tried with `ai` 4, 5 and 6 too. On responses `@ai-sdk/openai` before version 3 passes over `response.failed`: a stream that failed ends with the reason `unknown`, and no error. With these take `openai.chat()`.",
      ],
    },
  },
  {
    id: "langchain",
    name: "LangChain",
    seen: { tried: "`@langchain/openai` 1.6.0, `@langchain/anthropic` 1.5.11" },
    formats: ["chat", "messages", "responses"],
    example: "deepseek-v3.2",
    snippets: [
      {
        title: "TypeScript",
        language: "ts",
        code: `import { ChatOpenAI } from "@langchain/openai"

const model = new ChatOpenAI({
  model: "<MODEL>",
  apiKey: "<API_KEY>",
  configuration: { baseURL: "<BASE>/v1" },
})
console.log((await model.invoke("Halo, Loket!")).content)

// Responses: the same with useResponsesApi: true and zdrEnabled: true
// Messages: new ChatAnthropic({ model, apiKey, anthropicApiUrl: "<BASE>", maxTokens: 8_192 })`,
      },
    ],
    notes: {
      id: [
        "Pada responses, LangChain melewati `response.failed`: stream yang gagal berakhir tanpa kesalahan. Periksa `response_metadata.status`; nilainya `completed` hanya jika jawabannya selesai.",
        "ChatAnthropic membaca token prompt di awal stream. Untuk model yang penyedianya berformat lain, itu perkiraan; catatan pemakaian memuat jumlah sebenarnya.",
        'Prompt yang terlalu panjang menjadi `ContextOverflowError` pada ChatAnthropic. ChatOpenAI tidak mengenalinya dari pesan dengan jumlah token; periksa `error.headers.get("x-error-code")`.',
      ],
      en: [
        "On responses it passes over `response.failed`: a stream that failed ends without an error. It is told by `response_metadata.status`, which is `completed` only when it was.",
        "ChatAnthropic reads the prompt's tokens where a stream begins. For a model whose backend speaks another format that is the gateway's estimate; the usage record has the true counts.",
        'A prompt that is too long is a `ContextOverflowError` of ChatAnthropic. ChatOpenAI does not know it by a message with the numbers of tokens; it is told by `error.headers.get("x-error-code")`.',
      ],
    },
  },
  {
    id: "openai-agents",
    name: "OpenAI Agents SDK",
    seen: { tried: "`@openai/agents` 0.20.0" },
    formats: ["chat", "responses"],
    example: "gpt-6.1-sol",
    snippets: [
      {
        title: "TypeScript",
        language: "ts",
        code: `import { Agent, run, setDefaultOpenAIClient, setTracingDisabled } from "@openai/agents"
import OpenAI from "openai"

setDefaultOpenAIClient(new OpenAI({ baseURL: "<BASE>/v1", apiKey: "<API_KEY>" }))
setTracingDisabled(true)

const agent = new Agent({ name: "Loket", model: "<MODEL>" })
console.log((await run(agent, "Halo, Loket!")).finalOutput)`,
      },
    ],
    notes: {
      id: [
        "Tanpa `setTracingDisabled(true)`, isi percakapan dikirim kepada pembuatnya.",
        'Untuk model yang hanya dilayani pada chat: `setOpenAIAPI("chat_completions")`.',
      ],
      en: [
        "Without `setTracingDisabled(true)` it sends what was said to its vendor.",
        'For a model that is served on chat alone: `setOpenAIAPI("chat_completions")`.',
      ],
    },
  },
  {
    id: "claude-agent-sdk",
    name: "Claude Agent SDK",
    seen: { tried: "`@anthropic-ai/claude-agent-sdk` 0.3.330" },
    formats: ["messages"],
    example: "claude-sonnet-5-5",
    snippets: [
      {
        language: "sh",
        code: `export ANTHROPIC_BASE_URL=<BASE>
export ANTHROPIC_AUTH_TOKEN=<API_KEY>
export ANTHROPIC_MODEL=<MODEL>
export ANTHROPIC_DEFAULT_HAIKU_MODEL=<MODEL>`,
      },
    ],
    notes: {
      id: ["Variabelnya sama dengan Claude Code, dan catatannya juga."],
      en: ["The variables are those of Claude Code, and so are the notes."],
    },
  },
  {
    id: "mastra",
    name: "Mastra",
    seen: { tried: "`@mastra/core` 1.71.0" },
    formats: ["chat"],
    example: "deepseek-v3.2",
    snippets: [
      {
        title: "TypeScript",
        language: "ts",
        code: `import { Agent } from "@mastra/core/agent"

const agent = new Agent({
  id: "loket",
  name: "Loket",
  instructions: "Jawab singkat.",
  model: { id: "loket/<MODEL>", url: "<BASE>/v1", apiKey: "<API_KEY>" },
})
console.log((await agent.generate("Halo, Loket!")).text)`,
      },
    ],
    notes: {
      id: [
        "Dengan model dari `@ai-sdk/openai` beri juga `providerOptions: { openai: { store: false } }`, seperti pada AI SDK.",
      ],
      en: [
        "With a model of `@ai-sdk/openai` give it `providerOptions: { openai: { store: false } }` too, as with the AI SDK.",
      ],
    },
  },
  {
    id: "llamaindex",
    name: "LlamaIndex.TS",
    seen: { tried: "`llamaindex` 0.12.1" },
    formats: ["chat", "responses"],
    example: "deepseek-v3.2",
    snippets: [
      {
        title: "TypeScript",
        language: "ts",
        code: `import { openai } from "@llamaindex/openai"

const llm = openai({ model: "<MODEL>", apiKey: "<API_KEY>", baseURL: "<BASE>/v1" })
const { message } = await llm.chat({ messages: [{ role: "user", content: "Halo, Loket!" }] })
console.log(message.content)`,
      },
    ],
    notes: {
      id: ["Untuk format responses: `openaiResponses` dengan pengaturan yang sama."],
      en: ["For the responses format: `openaiResponses` with the same settings."],
    },
  },
  {
    id: "instructor",
    name: "Instructor (JavaScript)",
    seen: { tried: "`@instructor-ai/instructor` 1.7.0" },
    formats: ["chat"],
    example: "deepseek-v3.2",
    snippets: [
      {
        title: "TypeScript",
        language: "ts",
        code: `import Instructor from "@instructor-ai/instructor"
import OpenAI from "openai"
import { z } from "zod/v3"

const client = Instructor({
  client: new OpenAI({ baseURL: "<BASE>/v1", apiKey: "<API_KEY>" }),
  mode: "TOOLS",
})
const city = await client.chat.completions.create({
  model: "<MODEL>",
  messages: [{ role: "user", content: "Kota terbesar di Jawa?" }],
  response_model: { name: "City", schema: z.object({ name: z.string() }) },
})
console.log(city.name)`,
      },
    ],
    notes: {
      id: ["Skema harus dari `zod/v3`: dengan zod 4, Instructor mengirim skema kosong, dan itu ditolak."],
      en: ["Schemas must be of `zod/v3`: with zod 4 it sends an empty schema, which is refused."],
    },
  },
  {
    id: "litellm",
    name: "LiteLLM",
    seen: { page: "https://docs.litellm.ai/docs/providers/openai_compatible" },
    formats: ["chat"],
    example: "deepseek-v3.2",
    snippets: [
      {
        title: "Python",
        language: "python",
        code: `from litellm import completion

answer = completion(
    model="openai/<MODEL>",
    api_base="<BASE>/v1",
    api_key="<API_KEY>",
    messages=[{"role": "user", "content": "Halo, Loket!"}],
)
print(answer.choices[0].message.content)`,
      },
    ],
  },
]
