/**
 * Editors, and applications to talk or to automate with.
 *
 * The set-up of each client, in two places: the quick start page fills it in, and `docs/clients.md` has it as it is
 * (`bun test/dashboard/clients-document.ts` writes that, and a test holds the one against the other).
 */
import { agents } from "./agents.ts"
import { type Client, sdks } from "./client.ts"
import { frameworks } from "./frameworks.ts"

const apps: readonly Client[] = [
  {
    id: "cursor",
    name: "Cursor",
    seen: { page: "https://docs.cursor.com/settings/api-keys" },
    formats: ["chat"],
    example: "claude-sonnet-5-5",
    snippets: [
      {
        title: "Cursor Settings → Models → API Keys",
        language: "sh",
        code: `OpenAI API Key            <API_KEY>
Override OpenAI Base URL  <BASE>/v1
Add Custom Model          <MODEL>`,
      },
    ],
    notes: {
      id: [
        "Panggilannya datang dari server Cursor, jadi alamat Loket harus dapat dijangkau dari internet.",
        "Pelengkapan Tab selalu memakai model Cursor sendiri.",
        "Untuk model OpenAI (`gpt-…`) Cursor dapat mengirim badan format responses ke alamat chat, yang ditolak dengan `request.invalid_request`; pilih model lain.",
      ],
      en: [
        "Its calls come from Cursor's servers, so the gateway must be reachable from the internet.",
        "Tab completion always uses Cursor's own model.",
        "Of OpenAI's models (`gpt-…`) it may send a body of the responses format to the address of chat, which is refused with `request.invalid_request`; choose another model.",
      ],
    },
  },
  {
    id: "roo-code",
    name: "Roo Code",
    seen: { page: "https://docs.roocode.com/providers/openai-compatible" },
    formats: ["chat"],
    example: "deepseek-v3.2",
    snippets: [
      {
        title: "Settings → API Provider: OpenAI Compatible",
        language: "sh",
        code: `Base URL           <BASE>/v1
API Key            <API_KEY>
Model              <MODEL>
Context Window     <CONTEXT>
Max Output Tokens  <OUTPUT>`,
      },
    ],
  },
  {
    id: "continue",
    name: "Continue",
    seen: { tried: "`@continuedev/cli` 1.5.47" },
    formats: ["chat"],
    example: "deepseek-v3.2",
    snippets: [
      {
        title: "~/.continue/config.yaml",
        language: "yaml",
        code: `name: Loket
version: 0.0.1
schema: v1
models:
  - name: Loket
    provider: openai
    model: <MODEL>
    apiBase: <BASE>/v1
    apiKey: <API_KEY>`,
      },
    ],
    notes: {
      id: ["Dicoba dengan `cn` di terminal; ekstensi editor membaca berkas yang sama."],
      en: ["Tried with `cn` in a terminal; the editor's extension reads the same file."],
    },
  },
  {
    id: "zed",
    name: "Zed",
    seen: { page: "https://zed.dev/docs/ai/llm-providers" },
    formats: ["chat"],
    example: "deepseek-v3.2",
    snippets: [
      {
        title: "settings.json",
        language: "json",
        code: `{
  "language_models": {
    "openai_compatible": {
      "Loket": {
        "api_url": "<BASE>/v1",
        "available_models": [{ "name": "<MODEL>", "max_tokens": <CONTEXT>, "max_output_tokens": <OUTPUT> }]
      }
    }
  }
}`,
      },
      { language: "sh", code: "export LOKET_API_KEY=<API_KEY>\nzed" },
    ],
  },
  {
    id: "librechat",
    name: "LibreChat",
    seen: { page: "https://www.librechat.ai/docs/quick_start/custom_endpoints" },
    formats: ["chat"],
    example: "deepseek-v3.2",
    snippets: [
      {
        title: "librechat.yaml",
        language: "yaml",
        code: `endpoints:
  custom:
    - name: "Loket"
      apiKey: "<API_KEY>"
      baseURL: "<BASE>/v1"
      models:
        default: ["<MODEL>"]
        fetch: true`,
      },
    ],
  },
  {
    id: "open-webui",
    name: "Open WebUI",
    seen: { page: "https://docs.openwebui.com/getting-started/advanced-topics/env-configuration" },
    formats: ["chat"],
    example: "deepseek-v3.2",
    snippets: [
      {
        language: "sh",
        code: `export OPENAI_API_BASE_URL=<BASE>/v1
export OPENAI_API_KEY=<API_KEY>
open-webui serve`,
      },
    ],
  },
  {
    id: "n8n",
    name: "n8n",
    seen: { page: "https://docs.n8n.io/integrations/builtin/credentials/openai" },
    formats: ["chat"],
    example: "deepseek-v3.2",
    snippets: [
      {
        title: "Credentials → OpenAI",
        language: "sh",
        code: `API Key   <API_KEY>
Base URL  <BASE>/v1`,
      },
    ],
    notes: {
      id: ['Lalu pakai simpul "OpenAI Chat Model" dengan nama model dari `GET <BASE>/models`.'],
      en: ['Then the node "OpenAI Chat Model", with the id of a model from `GET <BASE>/models`.'],
    },
  },
]

/** Python first, then what most people come with. */
export const clients: readonly Client[] = [...sdks, ...agents, ...frameworks, ...apps]
