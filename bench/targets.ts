/** What is compared. Each is started alone, serves the same answers of one backend, and has the test core to itself. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Child, startChild } from "./child.ts"
import { type BenchModel, benchKey, type Inspection, startGateway } from "./gateway.ts"
import { freePort, type Postgres, RECONCILED } from "./postgres.ts"

/** Whether the backend speaks the client's format, which is chat, or another one, which is messages. */
export type Kind = "same" | "translated"

export interface Request {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly model: string
}

export interface Target {
  readonly title: string
  readonly child: Child | undefined
  /** Undefined without a database of its own process. */
  readonly database: Postgres | undefined
  /** How to have an answer of the backend; undefined when it cannot be had through this target. */
  request(answer: string, kind: Kind): Request | undefined
}

export interface TargetOptions {
  readonly backendUrl: string
  /** Names of the backend's answers. */
  readonly answers: readonly string[]
  readonly postgres: Postgres | undefined
  /** Of Loket on PostgreSQL. */
  readonly inspection?: Inspection
}

/** A target, or why there is none. */
type Start = (options: TargetOptions) => Promise<Target | string>

const CHAT = "/v1/chat/completions"
const JSON_TYPE = { "Content-Type": "application/json" }
const MILLION = 1_000_000
const NO_POSTGRES = "there are no binaries of PostgreSQL"

const passing =
  (url: string): Target["request"] =>
  (answer, kind) =>
    kind === "same" ? { url: `${url}/${answer}${CHAT}`, headers: JSON_TYPE, model: "bench" } : undefined

const backend: Start = ({ backendUrl }) =>
  Promise.resolve({ title: "backend alone", child: undefined, database: undefined, request: passing(backendUrl) })

const proxy: Start = async ({ backendUrl }) => {
  const child = await startChild(
    ["bun", join(import.meta.dir, "proxy.ts")],
    { UPSTREAM: backendUrl },
    /listening (\S+)/,
  )
  return { title: "Bun proxy", child, database: undefined, request: passing(child.url) }
}

const nginx: Start = async ({ backendUrl }) => {
  const binary = ["/usr/sbin/nginx", "nginx"].find((path) => Bun.which(path) !== null)
  if (binary === undefined) return "nginx is not installed (Debian: nginx-light)"
  const files = mkdtempSync(join(tmpdir(), "loket-bench-nginx-"))
  const port = freePort()
  const configuration = join(files, "nginx.conf")
  writeFileSync(
    configuration,
    `daemon off; pid ${files}/pid; error_log stderr crit; worker_processes 1;
    ${process.getuid?.() === 0 ? "user root;" : ""}
    events { worker_connections 16384; }
    http {
      access_log off; client_max_body_size 64m; client_body_buffer_size 1m; keepalive_requests 1000000000;
      client_body_temp_path ${files}/body; proxy_temp_path ${files}/proxy; fastcgi_temp_path ${files}/fastcgi;
      uwsgi_temp_path ${files}/uwsgi; scgi_temp_path ${files}/scgi;
      upstream backend { server ${new URL(backendUrl).host}; keepalive 4096; keepalive_requests 1000000000; }
      server {
        listen 127.0.0.1:${port} backlog=4096;
        location / {
          proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
        }
      }
    }`,
  )
  const child = await startChild([binary, "-p", files, "-c", configuration], {}, `http://127.0.0.1:${port}`)
  const stop = async () => {
    await child.stop()
    rmSync(files, { recursive: true, force: true })
  }
  return { title: "nginx", child: { ...child, stop }, database: undefined, request: passing(child.url) }
}

const portkey: Start = async ({ backendUrl }) => {
  if (Bun.which("node") === null || Bun.which("npm") === null) return "Node.js and npm are not installed"
  const directory = join(import.meta.dir, "portkey")
  const server = join(directory, "node_modules/@portkey-ai/gateway/build/start-server.js")
  if (!existsSync(server)) {
    const install = ["npm", "ci", "--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund", "--silent"]
    if ((await Bun.spawn(install, { cwd: directory, stdout: "ignore" }).exited) !== 0) return "npm could not install it"
  }
  const port = freePort()
  const child = await startChild(
    ["node", server, "--headless", `--port=${port}`],
    { NODE_ENV: "production", TRUSTED_CUSTOM_HOSTS: "127.0.0.1,localhost" },
    `http://127.0.0.1:${port}`,
  )
  return {
    title: "Portkey",
    child,
    database: undefined,
    request: (answer, kind) => ({
      url: child.url + CHAT,
      headers: {
        ...JSON_TYPE,
        Authorization: "Bearer bench",
        "x-portkey-provider": kind === "same" ? "openai" : "anthropic",
        "x-portkey-custom-host": `${backendUrl}/${answer}/v1`,
      },
      model: "bench",
    }),
  }
}

function models({ backendUrl, answers }: TargetOptions): Record<string, BenchModel> {
  const named: Record<string, BenchModel> = {}
  for (const answer of answers) {
    const baseUrl = `${backendUrl}/${answer}`
    named[`same.${answer}`] = { baseUrl, format: "chat", upstreamModel: answer }
    named[`translated.${answer}`] = { baseUrl, format: "messages", upstreamModel: answer }
  }
  return named
}

function loket(title: string, child: Child, key: string, database: Postgres | undefined): Target {
  const headers = { ...JSON_TYPE, Authorization: `Bearer ${key}` }
  return {
    title,
    child,
    database,
    request: (answer, kind) => ({ url: child.url + CHAT, headers, model: `${kind}.${answer}` }),
  }
}

const fresh: Start = async (options) => {
  const { postgres } = options
  if (postgres === undefined) return NO_POSTGRES
  const env = { DATABASE_URL: await postgres.create() }
  const child = await startGateway(models(options), env, options.inspection)
  await postgres.execute(env.DATABASE_URL, [RECONCILED])
  return loket("Loket, PostgreSQL", child, await benchKey(child.url), postgres)
}

/** With a collector of traces that takes all that comes. */
const tracing =
  (ratio: number, title: string): Start =>
  async (options) => {
    const { postgres } = options
    if (postgres === undefined) return NO_POSTGRES
    const collector = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      async fetch(request) {
        await request.arrayBuffer()
        return new Response()
      },
    })
    const child = await startGateway(models(options), {
      DATABASE_URL: await postgres.create(),
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url.origin,
      OTEL_TRACES_SAMPLER: "parentbased_traceidratio",
      OTEL_TRACES_SAMPLER_ARG: String(ratio),
    })
    const stop = async () => {
      await child.stop()
      await collector.stop(true)
    }
    return loket(title, { ...child, stop }, await benchKey(child.url), postgres)
  }

/** The records are there before the gateway that is measured asks its first question. */
const million: Start = async (options) => {
  const { postgres } = options
  if (postgres === undefined) return NO_POSTGRES
  const env = { DATABASE_URL: await postgres.create() }
  const before = await startGateway(models(options), env)
  const key = await benchKey(before.url)
  await callOnce(loket("", before, key, postgres))
  await before.stop()
  await postgres.execute(env.DATABASE_URL, [RECONCILED, ...copies(MILLION)])
  const child = await startGateway(models(options), env)
  return loket("Loket, 1,000,000 records", child, key, postgres)
}

/** Records of calls that cost nothing, over thirty days; any others would contradict the transfers. */
function copies(count: number): string[] {
  const step = 100_000
  return Array.from(
    { length: Math.ceil(count / step) },
    (_, at) => `
      insert into usage
      select copy.* from (select * from usage order by request_id desc limit 1) one,
        generate_series(${at * step + 1}, ${Math.min(count, (at + 1) * step)}) n,
        lateral (select one.opened_at - make_interval(secs => n * 2.5) as at) t,
        lateral jsonb_populate_record(null::usage, to_jsonb(one) || jsonb_build_object('charge_micro', 0,
          'input_tokens', 0, 'output_tokens', 0, 'opened_at', at, 'request_id', 'req_' || lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || lpad(n::text, 8, '0'))) copy`,
  )
}

async function callOnce(target: Target): Promise<void> {
  const request = target.request("plain", "same")
  const response = await fetch(request?.url ?? "", {
    method: "POST",
    headers: request?.headers ?? {},
    body: JSON.stringify({ model: request?.model, messages: [{ role: "user", content: "Hello" }] }),
  })
  if (!response.ok) throw new Error(await response.text())
  await response.text()
}

const embedded: Start = async (options) => {
  const child = await startGateway(models(options), { DATABASE_URL: "" })
  return loket("Loket, embedded", child, await benchKey(child.url), undefined)
}

export const targets = {
  backend,
  proxy,
  nginx,
  portkey,
  postgres: fresh,
  million,
  embedded,
  traced: tracing(0.01, "Loket, 1 % of traces"),
  "all-traced": tracing(1, "Loket, all traces"),
} as const
export type TargetName = keyof typeof targets
