/**
 * What the set-up of a client is, and how it is filled in for a gateway, a key and a model; with what is called from code: the
 * vendors' SDKs, and `curl`.
 */
import type { CatalogueModel } from "../../api/queries.ts"

type Format = CatalogueModel["endpoints"][number]

export interface Snippet {
  /** What it is called above the code: a file's name or a language; undefined for a terminal. */
  readonly title?: string
  /** What the code is written in, as Markdown names it. */
  readonly language: "sh" | "ts" | "python" | "json" | "toml" | "yaml"
  /** With `<BASE>`, `<API_KEY>`, `<MODEL>`, `<CONTEXT>` and `<OUTPUT>` in the places of what is filled in. */
  readonly code: string
}

export interface Client {
  /** In the page's address: `?client=claude-code`. */
  readonly id: string
  readonly name: string
  /** The version that was seen to work, or the address of the client's own documentation, from which this was written. */
  readonly seen: { readonly tried: string } | { readonly page: string }
  readonly formats: readonly Format[]
  /** A model of the stock catalogue that suits it: the page takes it, or another of its family. */
  readonly example: string
  readonly snippets: readonly Snippet[]
  readonly notes?: { readonly id: readonly string[]; readonly en: readonly string[] }
}

const KEY_PLACE = "<API_KEY>"

interface Setting {
  /** `https://gateway.example`, without a path. */
  readonly base: string
  readonly key?: string | undefined
  readonly model: Pick<CatalogueModel, "model" | "context_window" | "max_output_tokens">
}

/** Used for a model whose window nobody knows; tokens. */
const SOME_CONTEXT = 128_000
const SOME_OUTPUT = 8_192

export const filledIn = (code: string, { base, key, model }: Setting): string =>
  code
    .replaceAll("<BASE>", base)
    .replaceAll(KEY_PLACE, key ?? KEY_PLACE)
    .replaceAll("<MODEL>", model.model)
    .replaceAll("<CONTEXT>", String(model.context_window ?? SOME_CONTEXT))
    .replaceAll("<OUTPUT>", String(model.max_output_tokens ?? SOME_OUTPUT))

/** The model to begin with: the client's example, or one of its family that can use tools, of a middle price. */
export function firstModel(models: readonly CatalogueModel[], example = ""): CatalogueModel | undefined {
  const exactly = models.find(({ model }) => model === example)
  if (exactly !== undefined) return exactly
  const [family = ""] = example.split("-")
  const liked = models.filter(({ model }) => model.startsWith(family))
  const able = models.filter((model) => model.supports_tools)
  const both = liked.filter((model) => able.includes(model))
  const best = [both, liked, able, models].find((some) => some.length > 0) ?? []
  const byPrice = best.toSorted((a, b) => a.output_micro - b.output_micro)
  return byPrice[Math.floor(byPrice.length / 2)]
}

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
    seen: { tried: "`openai` 7.59.0" },
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
    seen: { tried: "`@anthropic-ai/sdk` 1.14.0" },
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
