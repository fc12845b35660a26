/**
 * The command-line agents, each set up for a gateway as docs/clients.md tells its users to: what it is started with,
 * which files it wants in its home, and the tool calls that one task is made of. An agent sees an environment that
 * holds nothing of the machine's but PATH, so that no other setting decides what a test finds.
 */
import { mkdir, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import type { Translated } from "../../src/language/request.ts"

/** Where a run goes, and as whom. */
export interface Target {
  /** The gateway's address, without a path. */
  readonly url: string
  readonly key: string
  readonly model: string
  /** The format that the agent speaks. */
  readonly format: Translated
  /** What the model's catalogue item says, for agents that must be told. */
  readonly contextWindow: number
  /** Agents that can say it say what run they are, and what it may spend. */
  readonly ofRun?: { readonly name: string; readonly budgetRp: number }
}

export interface Agent {
  readonly name: string
  readonly formats: readonly Translated[]
  /** A tool call that makes a file, and one that reads it. */
  readonly write: (path: string, content: string) => Step
  readonly read: (path: string) => Step
  readonly setUp: (target: Target, prompt: string) => SetUp
}

/** The name of one of the agent's own tools, and its arguments. */
export type Step = readonly [tool: string, args: Readonly<Record<string, unknown>>]

interface SetUp {
  readonly command: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** By their paths in the home directory. */
  readonly files?: Readonly<Record<string, string>>
}

export interface Run {
  readonly exitCode: number | null
  /** It was still running when its time was up. */
  readonly stopped: boolean
  readonly stdout: string
  readonly stderr: string
  readonly seconds: number
}

const installed = (...path: string[]): string => join(import.meta.dir, "node_modules", ...path)
const platform = `${process.platform}-${process.arch}`

const claudeCode: Agent = {
  name: "Claude Code",
  formats: ["messages"],
  write: (path, content) => ["Write", { file_path: path, content }],
  read: (path) => ["Read", { file_path: path }],
  setUp: ({ url, key, model, ofRun }, prompt) => ({
    command: [
      installed("@anthropic-ai", `claude-code-${platform}`, "claude"),
      "--print",
      "--permission-mode",
      "acceptEdits",
      prompt,
    ],
    env: {
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_AUTH_TOKEN: key,
      ANTHROPIC_MODEL: model,
      ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      DISABLE_AUTOUPDATER: "1",
      ...(ofRun && { ANTHROPIC_CUSTOM_HEADERS: `X-Run-Id: ${ofRun.name}\nX-Run-Budget-Rp: ${ofRun.budgetRp}` }),
    },
  }),
}

const codex: Agent = {
  name: "Codex",
  formats: ["responses"],
  write: (path, content) => ["exec_command", { cmd: `printf %s '${content}' > ${path}` }],
  read: (path) => ["exec_command", { cmd: `cat ${path}` }],
  setUp: ({ url, key, model, contextWindow, ofRun }, prompt) => ({
    command: [
      installed("@openai", `codex-${platform}`, "vendor", "x86_64-unknown-linux-musl", "bin", "codex"),
      "exec",
      "--skip-git-repo-check",
      "--dangerously-bypass-approvals-and-sandbox",
      prompt,
    ],
    env: { LOKET_API_KEY: key, ...(ofRun && { LOKET_RUN_ID: ofRun.name }) },
    files: {
      ".codex/config.toml": `
model = "${model}"
model_provider = "loket"
model_context_window = ${contextWindow}
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.loket]
name = "Loket"
base_url = "${url}/v1"
wire_api = "responses"
env_key = "LOKET_API_KEY"
${
  ofRun === undefined
    ? ""
    : `http_headers = { "X-Run-Budget-Rp" = "${ofRun.budgetRp}" }
env_http_headers = { "X-Run-Id" = "LOKET_RUN_ID" }
`
}`,
    },
  }),
}

const npmPackage: Record<Translated, string> = {
  chat: "@ai-sdk/openai-compatible",
  messages: "@ai-sdk/anthropic",
  responses: "@ai-sdk/openai",
}

const openCode: Agent = {
  name: "OpenCode",
  formats: ["chat", "messages", "responses"],
  write: (path, content) => ["write", { filePath: path, content }],
  read: (path) => ["read", { filePath: path }],
  setUp: ({ url, key, model, format, contextWindow }, prompt) => ({
    command: [
      installed(`opencode-${platform}`, "bin", "opencode"),
      "run",
      "--auto",
      "--model",
      `loket/${model}`,
      prompt,
    ],
    env: {
      LOKET_API_KEY: key,
      OPENCODE_DISABLE_AUTOUPDATE: "1",
      OPENCODE_DISABLE_MODELS_FETCH: "1",
      OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
    },
    files: {
      ".config/opencode/opencode.json": JSON.stringify({
        $schema: "https://opencode.ai/config.json",
        autoupdate: false,
        share: "disabled",
        provider: {
          loket: {
            npm: npmPackage[format],
            name: "Loket",
            options: { baseURL: `${url}/v1`, apiKey: "{env:LOKET_API_KEY}" },
            models: { [model]: { limit: { context: contextWindow, output: 8_192 } } },
          },
        },
      }),
    },
  }),
}

const qwenCode: Agent = {
  name: "Qwen Code",
  formats: ["chat", "messages"],
  write: (path, content) => ["write_file", { file_path: path, content }],
  read: (path) => ["read_file", { file_path: path }],
  setUp: ({ url, key, model, format }, prompt) => ({
    command: [
      installed(`node-${platform}`, "bin", "node"),
      installed("@qwen-code", "qwen-code", "cli-entry.js"),
      "--yolo",
      "--auth-type",
      format === "chat" ? "openai" : "anthropic",
      prompt,
    ],
    env:
      format === "chat"
        ? { OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: key, OPENAI_MODEL: model }
        : { ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: key, ANTHROPIC_MODEL: model },
    files: {
      ".qwen/settings.json": JSON.stringify({
        general: { enableAutoUpdate: false },
        privacy: { usageStatisticsEnabled: false },
        telemetry: { enabled: false },
      }),
    },
  }),
}

const copilot: Agent = {
  name: "Copilot CLI",
  formats: ["chat", "messages", "responses"],
  write: (path, content) => ["create", { path, file_text: content }],
  read: (path) => ["view", { path }],
  setUp: ({ url, key, model, format, contextWindow, ofRun }, prompt) => ({
    command: [installed("@github", `copilot-${platform}`, "copilot"), "--allow-all", "--prompt", prompt],
    env: {
      COPILOT_OFFLINE: "true",
      COPILOT_PROVIDER_BASE_URL: format === "messages" ? url : `${url}/v1`,
      COPILOT_PROVIDER_TYPE: format === "messages" ? "anthropic" : "openai",
      COPILOT_PROVIDER_WIRE_API: format === "responses" ? "responses" : "completions",
      COPILOT_PROVIDER_API_KEY: key,
      COPILOT_MODEL: model,
      COPILOT_PROVIDER_MAX_PROMPT_TOKENS: String(contextWindow),
      // It unpacks itself at its first start.
      XDG_CACHE_HOME: installed(".cache"),
      ...(ofRun && { COPILOT_PROVIDER_HEADERS: `X-Run-Id: ${ofRun.name}\nX-Run-Budget-Rp: ${ofRun.budgetRp}` }),
    },
  }),
}

export const agents: readonly Agent[] = [claudeCode, codex, openCode, qwenCode, copilot]

/** A home and a directory to work in, both gone when the test is. */
export class Desk implements AsyncDisposable {
  readonly home: string
  readonly work: string

  private constructor(root: string) {
    this.home = join(root, "home")
    this.work = join(root, "work")
  }

  static async clear(): Promise<Desk> {
    const desk = new Desk(await mkdtemp(join(tmpdir(), "loket-agent-")))
    await Promise.all([mkdir(desk.home), mkdir(desk.work)])
    return desk
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(dirname(this.home), { recursive: true, force: true })
  }
}

/** One run to its end, or until its time is up. */
export async function run(
  agent: Agent,
  target: Target,
  desk: Desk,
  { prompt, timeoutMs }: { readonly prompt: string; readonly timeoutMs: number },
): Promise<Run> {
  const { command, env, files = {} } = agent.setUp(target, prompt)
  for (const [path, content] of Object.entries(files)) await Bun.write(join(desk.home, path), content)
  const startedAt = performance.now()
  const child = Bun.spawn([...command], {
    cwd: desk.work,
    env: { PATH: process.env["PATH"] ?? "", HOME: desk.home, NO_COLOR: "1", ...env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    detached: true,
  })
  let stopped = false
  const timer = setTimeout(() => {
    stopped = true
    // The whole group, because an agent may be a process that starts the agent.
    process.kill(-child.pid, "SIGKILL")
  }, timeoutMs)
  const [stdout, stderr, exitCode] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  clearTimeout(timer)
  const seconds = (performance.now() - startedAt) / 1_000
  return { exitCode, stopped, stdout, stderr, seconds }
}
