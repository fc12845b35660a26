/** Coding agents that work in a terminal. */
import type { Client } from "./client.ts"

export const agents: readonly Client[] = [
  {
    id: "claude-code",
    name: "Claude Code",
    seen: { tried: "2.1.332" },
    formats: ["messages"],
    example: "claude-sonnet-5-5",
    snippets: [
      {
        language: "sh",
        code: `export ANTHROPIC_BASE_URL=<BASE>
export ANTHROPIC_AUTH_TOKEN=<API_KEY>
export ANTHROPIC_MODEL=<MODEL>
export ANTHROPIC_DEFAULT_HAIKU_MODEL=<MODEL>
claude`,
      },
    ],
    notes: {
      id: [
        "Tanpa `/v1` di alamatnya: dengan `/v1`, Claude Code mengira modelnya tidak ada. Nama `sonnet`, `opus`, dan `haiku` berlaku tanpa variabel model.",
        "Semua model yang dilayani pada messages dapat dipakai. Untuk model yang tidak dikenalnya, Claude Code mengira konteksnya sejuta token: isi `CLAUDE_CODE_MAX_CONTEXT_TOKENS` dengan ukuran sebenarnya, supaya percakapan diringkas pada waktunya. Pada nama yang dikenalnya variabel itu tidak berlaku, padahal konteksnya di sini bisa lain (`claude-haiku-5-5` dikiranya sejuta token; `GET <BASE>/models` menyebut yang sebenarnya): isi `CLAUDE_CODE_AUTO_COMPACT_WINDOW`, misalnya dengan `100000`.",
        "Ketika prompt melampaui konteks model, Loket menjawab `prompt is too long: N tokens > M maximum`, lalu Claude Code meringkas percakapan dan melanjutkan. Jika rantai model memiliki yang lebih besar dan tidak lebih mahal, model itu yang menjawab. Claude Code tetap menampilkan model yang dimintanya.",
        "Delapan penanda betanya diteruskan, kecuali yang menambah biaya di luar tarif: konteks sejuta token (`context-1m-…`), mode cepat, dan cache satu jam.",
        "WebSearch berfungsi pada model yang memuat `web_search` untuk messages di `GET <BASE>/models`.",
        "WebFetch lebih dulu bertanya ke alamat pembuatnya apakah halaman boleh dibaca. Di jaringan tertutup itu gagal; `skipWebFetchPreflight: true` di pengaturannya mematikan pemeriksaan itu.",
        "Di jaringan tanpa alamat lain milik pembuatnya: `CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1`.",
      ],
      en: [
        "`/v1` at the end of the address is once too much: Claude Code then says that the model may not exist. The names `sonnet`, `opus` and `haiku` work without a variable for a model.",
        "Any model that is served on messages will do. Of one that it does not know, Claude Code assumes a window of a million tokens: tell it the true one in `CLAUDE_CODE_MAX_CONTEXT_TOKENS`, and it compacts in time. That variable does nothing for a name that it knows, and such a model may have another window here (`claude-haiku-5-5`, which it takes for a million; `GET <BASE>/models` has the true one): set `CLAUDE_CODE_AUTO_COMPACT_WINDOW`, to `100000` for instance.",
        "It compacts in any case: when a prompt is over the window the gateway says `prompt is too long: N tokens > M maximum`, from which it shortens the conversation and goes on. Where a model with more room that costs no more is in the chain, that one answers instead; a dearer one does so only for a key that allows any. Claude Code shows and reckons with the model that it asked for, so give its key no more than the default.",
        "Its eight beta flags travel. A longer window (`context-1m-…`), the fast mode and the cache of an hour cost more than the rates cover: those flags are left out, and a cache is kept for five minutes.",
        "Its WebSearch works on models that list `web_search` for messages in `GET <BASE>/models`.",
        'Its WebFetch asks an address of the vendor\'s first whether a page may be read, and in a closed network says that it is "unable to verify" that; `skipWebFetchPreflight: true` in its settings turns that off.',
        "In a network without the vendor's other addresses: `CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1`.",
      ],
    },
  },
  {
    id: "codex",
    name: "Codex",
    seen: { tried: "0.171.0" },
    formats: ["responses"],
    example: "gpt-6.1-sol",
    snippets: [
      {
        title: "~/.codex/config.toml",
        language: "toml",
        code: `model = "<MODEL>"
model_provider = "loket"

[model_providers.loket]
name = "Loket"
base_url = "<BASE>/v1"
wire_api = "responses"
env_key = "LOKET_API_KEY"`,
      },
      { language: "sh", code: "export LOKET_API_KEY=<API_KEY>\ncodex" },
    ],
    notes: {
      id: [
        'Codex menawarkan pencarian web pada setiap permintaan. Model tanpa fitur itu menolaknya dengan `request.unsupported_feature`; tulis `web_search = "disabled"` di bagian atas berkas.',
        "Untuk model yang tidak dikenalnya, tulis `model_context_window = <CONTEXT>` di bagian atas berkas.",
        "Model dari pembuatnya memanggil alat lewat kode (`exec`), model lain satu per satu. Keduanya berfungsi.",
        "Jangan pakai `openai_base_url` atau penyedia dengan `name` OpenAI: Codex lalu mencoba WebSocket dahulu, dan meminta server meringkas percakapan panjang. Keduanya tidak dilayani di sini.",
      ],
      en: [
        'It offers web search with each request. A model without the feature refuses that with `request.unsupported_feature`; then put `web_search = "disabled"` at the top of the file.',
        "Of a model that it does not know it warns that metadata is missing; `model_context_window = <CONTEXT>` at the top gives it what it most needs.",
        "For the models of its vendor it calls its tools from code (`exec`); for others one by one. Both work.",
        "No `openai_base_url`, and no provider by the `name` of OpenAI: with either, Codex tries a WebSocket first, and has the server compact long conversations. Neither is served here.",
      ],
    },
  },
  {
    id: "opencode",
    name: "OpenCode",
    seen: { tried: "1.18.33" },
    formats: ["chat", "messages", "responses"],
    example: "deepseek-v3.2",
    snippets: [
      {
        title: "~/.config/opencode/opencode.json",
        language: "json",
        code: `{
  "$schema": "https://opencode.ai/config.json",
  "provider": {
    "loket": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "Loket",
      "options": { "baseURL": "<BASE>/v1", "apiKey": "{env:LOKET_API_KEY}" },
      "models": { "<MODEL>": { "limit": { "context": <CONTEXT>, "output": <OUTPUT> } } }
    }
  }
}`,
      },
      { language: "sh", code: "export LOKET_API_KEY=<API_KEY>\nopencode --model loket/<MODEL>" },
    ],
    notes: {
      id: [
        "Untuk messages paketnya `@ai-sdk/anthropic`, untuk responses `@ai-sdk/openai`; alamatnya sama.",
        "Setiap sesi memakai satu panggilan kecil lagi, untuk judulnya.",
        "Beri batas pengeluaran pada kuncinya: percakapan yang tidak muat juga setelah diringkas dicobanya terus-menerus, dan setiap ringkasan dibayar.",
      ],
      en: [
        "For messages the package is `@ai-sdk/anthropic`, for responses `@ai-sdk/openai`; the address is the same.",
        "Each session costs one small call more, for its title.",
        "Give its key a spending limit: where even the compacted conversation does not fit it tries again and again, at the cost of a call each time, until it is stopped.",
      ],
    },
  },
  {
    id: "qwen-code",
    name: "Qwen Code",
    seen: { tried: "0.24.4" },
    formats: ["chat", "messages"],
    example: "qwen3-coder-480b",
    snippets: [
      {
        language: "sh",
        code: `export OPENAI_BASE_URL=<BASE>/v1
export OPENAI_API_KEY=<API_KEY>
export OPENAI_MODEL=<MODEL>
qwen --auth-type openai`,
      },
    ],
    notes: {
      id: [
        "Memerlukan Node.js 22 atau lebih baru.",
        "Untuk messages: `ANTHROPIC_BASE_URL=<BASE>`, `ANTHROPIC_API_KEY`, `ANTHROPIC_MODEL`, dan `qwen --auth-type anthropic`.",
      ],
      en: [
        "Needs Node.js 22 or newer; tried on 26.",
        "For messages: `ANTHROPIC_BASE_URL=<BASE>`, `ANTHROPIC_API_KEY`, `ANTHROPIC_MODEL`, and `qwen --auth-type anthropic`.",
      ],
    },
  },
  {
    id: "copilot-cli",
    name: "GitHub Copilot CLI",
    seen: { tried: "1.0.102" },
    formats: ["chat", "messages", "responses"],
    example: "deepseek-v3.2",
    snippets: [
      {
        language: "sh",
        code: `export COPILOT_PROVIDER_BASE_URL=<BASE>/v1
export COPILOT_PROVIDER_API_KEY=<API_KEY>
export COPILOT_MODEL=<MODEL>
export COPILOT_PROVIDER_MAX_PROMPT_TOKENS=<CONTEXT>
export COPILOT_PROVIDER_MAX_OUTPUT_TOKENS=<OUTPUT>
copilot`,
      },
    ],
    notes: {
      id: [
        "Tanpa akun GitHub. Di jaringan yang tidak menjangkau GitHub: `COPILOT_OFFLINE=true`.",
        "Untuk messages: `COPILOT_PROVIDER_TYPE=anthropic` dan alamat tanpa `/v1`; untuk responses: `COPILOT_PROVIDER_WIRE_API=responses`.",
        "Kedua batas token perlu diisi: hanya dengan itu percakapan diringkas pada waktunya. Prompt yang melampaui konteks model dijawab `400 Bad Request`, tanpa meringkas.",
        "Dari kesalahan hanya statusnya yang ditampilkan, misalnya `402 Payment Required`: alasannya ada di dasbor.",
      ],
      en: [
        "Without an account of GitHub's. In a network that does not reach GitHub: `COPILOT_OFFLINE=true`.",
        "For messages: `COPILOT_PROVIDER_TYPE=anthropic` and the address without `/v1`; for responses: `COPILOT_PROVIDER_WIRE_API=responses`.",
        "It needs both limits on tokens: by these alone it compacts in time. A prompt that is over the model's window ends with `400 Bad Request`, and is not compacted.",
        "Of an error it shows the status alone, such as `402 Payment Required`: why is in the dashboard.",
      ],
    },
  },
  {
    id: "cline",
    name: "Cline",
    seen: { tried: "3.0.65" },
    formats: ["chat"],
    example: "deepseek-v3.2",
    snippets: [{ language: "sh", code: "cline auth -p openai -b <BASE>/v1 -k <API_KEY> -m <MODEL>" }],
    notes: {
      id: ['Di editor: penyedia "OpenAI Compatible" dengan alamat, kunci, dan model yang sama.'],
      en: ['In the editor: the provider "OpenAI Compatible" with the same address, key and model.'],
    },
  },
  {
    id: "pi",
    name: "pi",
    seen: { tried: "0.73.1" },
    formats: ["chat", "messages", "responses"],
    example: "deepseek-v3.2",
    snippets: [
      {
        title: "~/.pi/agent/models.json",
        language: "json",
        code: `{
  "providers": {
    "loket": {
      "baseUrl": "<BASE>/v1",
      "api": "openai-completions",
      "apiKey": "LOKET_API_KEY",
      "models": [{ "id": "<MODEL>", "contextWindow": <CONTEXT>, "maxTokens": <OUTPUT> }]
    }
  }
}`,
      },
      { language: "sh", code: "export LOKET_API_KEY=<API_KEY>\npi --provider loket --model <MODEL>" },
    ],
    notes: {
      id: [
        'Untuk messages: `"api": "anthropic-messages"` dan alamat tanpa `/v1`; untuk responses: `"api": "openai-responses"`.',
      ],
      en: [
        'For messages: `"api": "anthropic-messages"` and the address without `/v1`; for responses: `"api": "openai-responses"`.',
      ],
    },
  },
  {
    id: "aider",
    name: "Aider",
    seen: { page: "https://aider.chat/docs/llms/openai-compat.html" },
    formats: ["chat"],
    example: "deepseek-v3.2",
    snippets: [
      {
        language: "sh",
        code: `export OPENAI_API_BASE=<BASE>/v1
export OPENAI_API_KEY=<API_KEY>
aider --model openai/<MODEL>`,
      },
    ],
  },
  {
    id: "goose",
    name: "Goose",
    seen: { page: "https://block.github.io/goose/docs/getting-started/providers" },
    formats: ["chat"],
    example: "deepseek-v3.2",
    snippets: [
      {
        language: "sh",
        code: `export GOOSE_PROVIDER=openai
export GOOSE_MODEL=<MODEL>
export OPENAI_HOST=<BASE>
export OPENAI_API_KEY=<API_KEY>
goose session`,
      },
    ],
    notes: {
      id: ["Tanpa `/v1` di alamatnya: Goose menambahkan `OPENAI_BASE_PATH`, biasanya `v1/chat/completions`."],
      en: ["No `/v1` in the address: Goose adds `OPENAI_BASE_PATH`, which is `v1/chat/completions` unless it is set."],
    },
  },
  {
    id: "crush",
    name: "Crush",
    seen: { page: "https://github.com/charmbracelet/crush#custom-providers" },
    formats: ["chat", "messages"],
    example: "deepseek-v3.2",
    snippets: [
      {
        title: "crush.json",
        language: "json",
        code: `{
  "$schema": "https://charm.land/crush.json",
  "providers": {
    "loket": {
      "type": "openai-compat",
      "base_url": "<BASE>/v1",
      "api_key": "$LOKET_API_KEY",
      "models": [
        { "id": "<MODEL>", "name": "<MODEL>", "context_window": <CONTEXT>, "default_max_tokens": <OUTPUT> }
      ]
    }
  }
}`,
      },
      { language: "sh", code: "export LOKET_API_KEY=<API_KEY>\ncrush" },
    ],
    notes: {
      id: [
        "Versi sebelum September 2026 dapat menyebut penolakan sebagai `cannot unmarshal string into Go value`: alasannya ada di dasbor.",
      ],
      en: [
        "Versions of before September 2026 may say `cannot unmarshal string into Go value` of a refusal: why is in the dashboard.",
      ],
    },
  },
]
