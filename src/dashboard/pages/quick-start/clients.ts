/**
 * The set-up of each client, as it was tested (docs/clients.md): text to copy, with this gateway's address in it. The key is
 * `<API_KEY>`, because a key cannot be shown again.
 */
import type { CatalogueModel } from "../../api/queries.ts"
import type { QuickStartText } from "./text.ts"

type Format = CatalogueModel["endpoints"][number]

interface Snippet {
  /** Where it belongs: a file's name, or undefined for a terminal. */
  readonly file?: string
  readonly code: string
}

interface Setting {
  /** `https://gateway.example`, without a path. */
  readonly base: string
  readonly model: CatalogueModel
}

export interface Client {
  readonly id: keyof QuickStartText["notes"]
  readonly name: string
  readonly format: Format
  /** The beginning of the ids of models that the client works best with. */
  readonly likes?: string
  readonly snippets: (setting: Setting) => readonly Snippet[]
}

const KEY = "<API_KEY>"

export const clients: readonly Client[] = [
  {
    id: "curl",
    name: "curl",
    format: "chat",
    snippets: ({ base, model }) => [
      {
        code: `curl -N ${base}/v1/chat/completions \\
  -H 'Authorization: Bearer ${KEY}' \\
  -H 'Content-Type: application/json' \\
  -d '{"model":"${model.model}","stream":true,"messages":[{"role":"user","content":"Halo, Loket!"}]}'`,
      },
    ],
  },
  {
    id: "openai",
    name: "OpenAI SDK",
    format: "chat",
    snippets: ({ base, model }) => [
      {
        file: "TypeScript",
        code: `import OpenAI from "openai"

const openai = new OpenAI({ baseURL: "${base}/v1", apiKey: "${KEY}" })
const answer = await openai.chat.completions.create({
  model: "${model.model}",
  messages: [{ role: "user", content: "Halo, Loket!" }],
})
console.log(answer.choices[0]?.message.content)`,
      },
    ],
  },
  {
    id: "anthropic",
    name: "Anthropic SDK",
    format: "messages",
    likes: "claude-sonnet",
    snippets: ({ base, model }) => [
      {
        file: "TypeScript",
        code: `import Anthropic from "@anthropic-ai/sdk"

const anthropic = new Anthropic({ baseURL: "${base}", apiKey: "${KEY}" })
const answer = await anthropic.messages.create({
  model: "${model.model}",
  max_tokens: 1024,
  messages: [{ role: "user", content: "Halo, Loket!" }],
})
console.log(answer.content)`,
      },
    ],
  },
  {
    id: "claudeCode",
    name: "Claude Code",
    format: "messages",
    likes: "claude-sonnet",
    snippets: ({ base, model }) => [
      {
        code: `export ANTHROPIC_BASE_URL=${base}
export ANTHROPIC_AUTH_TOKEN=${KEY}
export ANTHROPIC_MODEL=${model.model}
export ANTHROPIC_DEFAULT_HAIKU_MODEL=${model.model}
claude`,
      },
    ],
  },
  {
    id: "codex",
    name: "Codex",
    format: "responses",
    likes: "gpt-",
    snippets: ({ base, model }) => [
      {
        file: "~/.codex/config.toml",
        code: `model = "${model.model}"
model_provider = "loket"

[model_providers.loket]
name = "Loket"
base_url = "${base}/v1"
wire_api = "responses"
env_key = "LOKET_API_KEY"`,
      },
      { code: `export LOKET_API_KEY=${KEY}\ncodex` },
    ],
  },
  {
    id: "openCode",
    name: "OpenCode",
    format: "chat",
    snippets: ({ base, model }) => [
      { file: "~/.config/opencode/opencode.json", code: openCode(base, model) },
      { code: `export LOKET_API_KEY=${KEY}\nopencode --model loket/${model.model}` },
    ],
  },
  {
    id: "qwenCode",
    name: "Qwen Code",
    format: "chat",
    likes: "qwen",
    snippets: ({ base, model }) => [
      {
        code: `export OPENAI_BASE_URL=${base}/v1
export OPENAI_API_KEY=${KEY}
export OPENAI_MODEL=${model.model}
qwen --auth-type openai`,
      },
    ],
  },
]

const openCode = (base: string, model: CatalogueModel): string =>
  JSON.stringify(
    {
      $schema: "https://opencode.ai/config.json",
      provider: {
        loket: {
          npm: "@ai-sdk/openai-compatible",
          name: "Loket",
          options: { baseURL: `${base}/v1`, apiKey: "{env:LOKET_API_KEY}" },
          models: {
            [model.model]:
              model.context_window === null
                ? {}
                : { limit: { context: model.context_window, output: model.max_output_tokens } },
          },
        },
      },
    },
    null,
    2,
  )

/** The model to begin with: one that suits the client and can use tools, if there is one, of a middle price. */
export function firstModel(models: readonly CatalogueModel[], likes = ""): CatalogueModel | undefined {
  const liked = models.filter(({ model }) => model.startsWith(likes))
  const able = models.filter((model) => model.supports_tools)
  const both = liked.filter((model) => able.includes(model))
  const best = [both, liked, able, models].find((some) => some.length > 0) ?? []
  const byPrice = best.toSorted((a, b) => a.output_micro - b.output_micro)
  return byPrice[Math.floor(byPrice.length / 2)]
}
