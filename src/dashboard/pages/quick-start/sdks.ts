/** What is called from code: the vendors' SDKs, and `curl`. */
import type { Client } from "./client.ts"

export const curl: Client = {
  id: "curl",
  name: "curl",
  seen: { tried: "7.88.1" },
  formats: ["chat"],
  example: "deepseek-v3.2",
  snippets: [
    {
      language: "sh",
      code: `curl -N <BASE>/v1/chat/completions \\
  -H 'Authorization: Bearer <API_KEY>' \\
  -H 'Content-Type: application/json' \\
  -d '{"model":"<MODEL>","stream":true,"messages":[{"role":"user","content":"Halo, Loket!"}]}'`,
    },
  ],
}

export const sdks: readonly Client[] = [
  {
    id: "python",
    name: "Python: OpenAI SDK",
    seen: { tried: "`openai` 3.22.1" },
    formats: ["chat", "responses"],
    example: "deepseek-v3.2",
    snippets: [
      { language: "sh", code: "pip install openai" },
      {
        title: "Python",
        language: "python",
        code: `from openai import OpenAI

client = OpenAI(base_url="<BASE>/v1", api_key="<API_KEY>")
answer = client.chat.completions.create(
    model="<MODEL>",
    messages=[{"role": "user", "content": "Halo, Loket!"}],
)
print(answer.choices[0].message.content)`,
      },
    ],
    notes: {
      id: [
        'Kode kesalahannya ada di `error.response.headers["x-error-code"]`; `error.code` kosong.',
        "Untuk format responses (`client.responses.create`), alamat dan kuncinya sama; pakai model yang dilayani di sana, seperti `gpt-6.1-sol`.",
      ],
      en: [
        'An error\'s code is in `error.response.headers["x-error-code"]`; `error.code` is empty.',
        "For the responses format (`client.responses.create`) the address and the key are the same; take a model that is served there, such as `gpt-6.1-sol`.",
      ],
    },
  },
  {
    id: "python-anthropic",
    name: "Python: Anthropic SDK",
    seen: { tried: "`anthropic` 1.13.0" },
    formats: ["messages"],
    example: "claude-sonnet-5-5",
    snippets: [
      { language: "sh", code: "pip install anthropic" },
      {
        title: "Python",
        language: "python",
        code: `from anthropic import Anthropic

client = Anthropic(base_url="<BASE>", api_key="<API_KEY>")
answer = client.messages.create(
    model="<MODEL>",
    max_tokens=1024,
    messages=[{"role": "user", "content": "Halo, Loket!"}],
)
print(answer.content[0].text)`,
      },
    ],
    notes: {
      id: [
        "Tanpa `/v1` di alamatnya.",
        "Loop alatnya (`beta.messages.tool_runner`) berfungsi apa adanya; yang memerlukan `thread: false` adalah SDK TypeScript.",
      ],
      en: [
        "No `/v1` in the address.",
        "Its tool runner, `beta.messages.tool_runner`, works as it is; it is the TypeScript SDK's that needs `thread: false`.",
      ],
    },
  },
  curl,
  {
    id: "openai-sdk",
    name: "OpenAI SDK",
    seen: { tried: "`openai` 7.55.0" },
    formats: ["chat", "responses"],
    example: "deepseek-v3.2",
    snippets: [
      {
        title: "TypeScript",
        language: "ts",
        code: `import OpenAI from "openai"

const openai = new OpenAI({ baseURL: "<BASE>/v1", apiKey: "<API_KEY>" })
const answer = await openai.chat.completions.create({
  model: "<MODEL>",
  messages: [{ role: "user", content: "Halo, Loket!" }],
})
console.log(answer.choices[0]?.message.content)`,
      },
    ],
    notes: {
      id: [
        'Kode kesalahannya ada di `error.headers.get("x-error-code")`; `error.code` dan `error.type` kosong.',
        "Untuk format responses, alamat dan kuncinya sama; pakai model yang dilayani di sana, seperti `gpt-6.1-sol`.",
      ],
      en: [
        'An error\'s code is in `error.headers.get("x-error-code")`; `error.code` and `error.type` are empty.',
        "For the responses format the address and the key are the same; take a model that is served there, such as `gpt-6.1-sol`.",
      ],
    },
  },
  {
    id: "anthropic-sdk",
    name: "Anthropic SDK",
    seen: { tried: "`@anthropic-ai/sdk` 1.11.0" },
    formats: ["messages"],
    example: "claude-sonnet-5-5",
    snippets: [
      {
        title: "TypeScript",
        language: "ts",
        code: `import Anthropic from "@anthropic-ai/sdk"

const anthropic = new Anthropic({ baseURL: "<BASE>", apiKey: "<API_KEY>" })
const answer = await anthropic.messages.create({
  model: "<MODEL>",
  max_tokens: 1024,
  messages: [{ role: "user", content: "Halo, Loket!" }],
})
console.log(answer.content)`,
      },
    ],
    notes: {
      id: [
        "Tanpa `/v1` di alamatnya.",
        "Beri `thread: false` kepada `beta.messages.toolRunner`: tanpa itu, SDK ingin percakapannya disimpan di penyedia, dan itu ditolak dengan `request.unsupported_feature`. Sudah dicoba dengan `betaZodTool` pada penyedia ketiga format.",
      ],
      en: [
        "No `/v1` in the address.",
        "To the tool runner, `beta.messages.toolRunner`, give `thread: false`: else it wants the backend to keep the conversation, which is refused with `request.unsupported_feature`. Tried with `betaZodTool` on backends of all three formats.",
      ],
    },
  },
]
