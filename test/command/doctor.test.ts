/** `loket doctor` names what is wrong and what to do about it: one seeded misconfiguration a row, on a machine that is in order otherwise. */
import { mail } from "../../src/command/doctor/settings.ts"
import { configuration } from "../../src/command/command.ts"
import { model } from "../catalogue/files.ts"
import { MailServer } from "../accounts/mail-server.ts"
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Connection } from "../../src/store/connection.ts"
import { directConnection, openPlace, type Place } from "../store/scratch.ts"
import { loket } from "./loket.ts"

type Finding = { readonly state: "ok" | "look" | "wrong"; readonly what: string; readonly remedy?: string }
type Environment = Readonly<Record<string, string>>

const scratch = mkdtempSync(join(tmpdir(), "loket-doctor-"))
/** A provider that takes one key, Midtrans that takes another, and a server that is no gateway. */
const provider = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  fetch: ({ headers, url }) =>
    headers.get("authorization") === `Basic ${btoa("Mid-server-x:")}` && url.includes("/v2/")
      ? Response.json({ status_code: "404", status_message: "Transaction doesn't exist." }, { status: 404 })
      : headers.get("authorization") === "Bearer right" || headers.get("x-api-key") === "right"
        ? new Response("{}", { headers: url.includes("/late/") ? { Date: "Thu, 01 Jan 2026 00:00:00 GMT" } : {} })
        : new Response("{}", { status: 401 }),
})
let database: Place
let direct: Connection
beforeAll(async () => {
  database = await openPlace()
  direct = directConnection(database.url)
})
afterAll(async () => {
  await provider.stop(true)
  await direct.end()
  await database.remove()
  rmSync(scratch, { recursive: true, force: true })
})

const file = (name: string, content: unknown): string => {
  const path = join(scratch, name)
  writeFileSync(path, JSON.stringify(content))
  return path
}
const providersAt = (base_url: string, more: object = {}): string =>
  file(`providers-${Bun.hash(base_url + JSON.stringify(more))}.json`, {
    providers: ["first", "second"].map((id) => ({
      id,
      label: id,
      base_url,
      api_key_env: `${id.toUpperCase()}_PROVIDER_API_KEY`,
      headers: {},
      ...more,
    })),
  })
const directory = (name: string): string => {
  const path = join(scratch, name)
  mkdirSync(path, { recursive: true })
  return path
}

const inOrder = (): Environment => ({
  PORT: "0",
  DATA_DIR: directory("data"),
  PROVIDERS_FILE: providersAt(provider.url.origin),
  FIRST_PROVIDER_API_KEY: "right",
  SECOND_PROVIDER_API_KEY: "right",
  PAYMENT_PROVIDER: "midtrans",
  MIDTRANS_SERVER_KEY: "Mid-server-x",
  MIDTRANS_BASE_URL: provider.url.origin,
  CLIENT_ADDRESS_HEADER: "X-Forwarded-For",
})

async function doctor(env: Environment): Promise<{ code: number; found: readonly Finding[] }> {
  const { code, said, complaint } = await loket(env, "doctor", "--json")
  if (said === "") throw new Error(complaint)
  return { code, found: Object.values(JSON.parse(said) as Record<string, Finding[]>).flat() }
}

test("nothing is wrong where nothing is, and the text says so", async () => {
  const { code, found } = await doctor(inOrder())
  expect(found.filter(({ state }) => state === "wrong")).toEqual([])
  expect(code).toBe(0)
  const text = await loket(inOrder(), "doctor")
  expect(text).toMatchObject({ code: 0, complaint: "" })
  expect(text.said).toMatch(/^0 wrong, \d+ to look at, \d+ in order$/m)
})

interface Row {
  readonly seeded: string
  readonly env: () => Environment
  readonly state?: "look"
  readonly what: RegExp
  readonly remedy: RegExp
}

const rows: readonly Row[] = [
  {
    seeded: "a value that cannot be read",
    env: () => ({ PORT: "http" }),
    what: /^PORT is "http"/,
    remedy: /allowed value/,
  },
  {
    seeded: "a name that was misspelt",
    env: () => ({ SECOND_PROVDER_API_KEY: "x", SECOND_PROVIDER_API_KEY: "" }),
    state: "look",
    what: /^SECOND_PROVDER_API_KEY is set, and nothing reads it/,
    remedy: /if SECOND_PROVIDER_API_KEY was meant/,
  },
  {
    seeded: "one of a provider's keys without a value",
    env: () => ({
      PROVIDERS_FILE: providersAt(provider.url.origin, {
        api_key_env: undefined,
        keys: [
          { name: "one", env: "FIRST_PROVIDER_API_KEY" },
          { name: "two", file: join(scratch, "nowhere") },
        ],
      }),
    }),
    state: "look",
    what: /^provider first: the key two has no value: .*nowhere holds none, or cannot be read/,
    remedy: /take the key out/,
  },
  {
    seeded: "a model on OpenAI's own chat that would get both names of the answer limit",
    env: () => ({
      PROVIDERS_FILE: file("openai.json", {
        providers: [
          { id: "first", label: "first", base_url: provider.url.origin, api_key_env: "FIRST_PROVIDER_API_KEY" },
          { id: "second", label: "second", base_url: "https://api.openai.com", api_key_env: "SECOND_PROVIDER_API_KEY" },
        ],
      }),
      CATALOGUE_FILE: file("openai-models.json", {
        models: [
          model("here", {}),
          model("one", { upstream: { provider: "second", format: "chat", model: "m" } }),
          model("two", { upstream: { provider: "second", format: "chat", model: "m" } }),
          model("three", { upstream: { provider: "second", format: "chat", model: "m" }, strip: ["max_tokens"] }),
          model("four", {
            upstream: { provider: "second", format: "responses", model: "m" },
            endpoints: ["responses"],
          }),
        ],
      }),
      SECOND_PROVIDER_API_KEY: "",
    }),
    state: "look",
    what: /^one, two: OpenAI's own chat refuses max_completion_tokens beside max_tokens$/,
    remedy: /max_tokens in the strip/,
  },
  {
    seeded: "payments, and nobody who sells",
    env: () => ({}),
    state: "look",
    what: /^SELLER_NAME is unset: receipts and statements are drafts/,
    remedy: /set SELLER_NAME, SELLER_ADDRESS/,
  },
  {
    seeded: "a seller without an address",
    env: () => ({ SELLER_NAME: "PT Contoh" }),
    state: "look",
    what: /^SELLER_ADDRESS is unset/,
    remedy: /set SELLER_NAME, SELLER_ADDRESS/,
  },
  {
    seeded: "no terms of the operator's own",
    env: () => ({ LEGAL_TEXTS_DIR: "" }),
    state: "look",
    what: /LEGAL_TEXTS_DIR is unset: people agree to example terms/,
    remedy: /`loket legal-texts <directory>`, fill them in, and set LEGAL_TEXTS_DIR/,
  },
  {
    seeded: "terms that are not there",
    env: () => ({ LEGAL_TEXTS_DIR: directory("no-texts") }),
    what: /no-texts\/terms\.id\.md cannot be read \(ENOENT\)/,
    remedy: /at most 128 KiB in UTF-8/,
  },
  {
    seeded: "terms with gaps",
    env: () => ({ LEGAL_TEXTS_DIR: join(import.meta.dir, "../../src/legal") }),
    state: "look",
    what: /have gaps still: terms\.id\.md, /,
    remedy: /fill in/,
  },
  {
    seeded: "one port for two listeners",
    env: () => ({ PORT: "9187", METRICS_PORT: "9187" }),
    what: /both 9187/,
    remedy: /port of its own/,
  },
  {
    seeded: "a shared port on the embedded database",
    env: () => ({ REUSE_PORT: "true" }),
    what: /admits one process/,
    remedy: /set DATABASE_URL/,
  },
  {
    seeded: "commits that are not synced",
    env: () => ({ EMBEDDED_SYNC: "false" }),
    state: "look",
    what: /EMBEDDED_SYNC is false/,
    remedy: /money to lose/,
  },
  {
    seeded: "plain HTTP for others",
    env: () => ({ HOST: "0.0.0.0" }),
    state: "look",
    what: /HOST is 0\.0\.0\.0/,
    remedy: /ends TLS/,
  },
  {
    seeded: "a collector that is not there",
    env: () => ({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" }),
    what: /^the collector 127\.0\.0\.1:9 is not reached: /,
    remedy: /receiver for OTLP over HTTP/,
  },
  {
    seeded: "a collector's port for gRPC",
    env: () => ({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4317" }),
    what: /^the collector 127\.0\.0\.1:4317 is not reached: /,
    remedy: /4317 is the port of gRPC/,
  },
  {
    seeded: "a collector's key that is wrong",
    env: () => ({ OTEL_EXPORTER_OTLP_ENDPOINT: provider.url.origin, OTEL_EXPORTER_OTLP_HEADERS: "x-api-key=other" }),
    what: /refuses traces \(401\)/,
    remedy: /check OTEL_EXPORTER_OTLP_HEADERS/,
  },
  {
    seeded: "a trace of every call",
    env: () => ({ OTEL_EXPORTER_OTLP_ENDPOINT: provider.url.origin, OTEL_EXPORTER_OTLP_HEADERS: "x-api-key=right" }),
    state: "look",
    what: /every call is traced/,
    remedy: /parentbased_traceidratio/,
  },
  {
    seeded: "a variable of OpenTelemetry's that is not read",
    env: () => ({ OTEL_EXPORTER_OTLP_ENDPOINT: provider.url.origin, OTEL_EXPORTER_OTLP_TRACES_HEADERS: "a=b" }),
    state: "look",
    what: /OTEL_EXPORTER_OTLP_TRACES_HEADERS is set, and nothing reads it/,
    remedy: /traces\.md/,
  },
  {
    seeded: "traces without a collector",
    env: () => ({ OTEL_TRACES_SAMPLER: "always_on" }),
    state: "look",
    what: /OTEL_TRACES_SAMPLER is set, but no collector is/,
    remedy: /set OTEL_EXPORTER_OTLP_ENDPOINT/,
  },
  {
    seeded: "metrics for everybody",
    env: () => ({ HOST: "0.0.0.0", METRICS_PORT: "0" }),
    state: "look",
    what: /metrics on 0\.0\.0\.0/,
    remedy: /firewall/,
  },
  {
    seeded: "no header for clients' addresses",
    env: () => ({ CLIENT_ADDRESS_HEADER: "" }),
    state: "look",
    what: /all people have one address/,
    remedy: /X-Forwarded-For/,
  },
  {
    seeded: "free top-ups",
    env: () => ({ PAYMENT_SIMULATED_SECRET: "s" }),
    what: /anybody can top up without paying/,
    remedy: /unset it/,
  },
  {
    seeded: "payments without a key",
    env: () => ({ MIDTRANS_SERVER_KEY: "" }),
    what: /MIDTRANS_SERVER_KEY is unset/,
    remedy: /Access Keys/,
  },
  {
    seeded: "a sandbox's key in production",
    env: () => ({ MIDTRANS_SERVER_KEY: "SB-Mid-server-x" }),
    what: /is of the sandbox/,
    remedy: /api\.sandbox\.midtrans\.com/,
  },
  {
    seeded: "a key that Midtrans refuses",
    env: () => ({ MIDTRANS_SERVER_KEY: "Mid-server-of-another" }),
    what: /^Midtrans: 127\.0\.0\.1:\d+ refuses the key \(401\)/,
    remedy: /MIDTRANS_SERVER_KEY/,
  },
  {
    seeded: "a Midtrans that is not reached",
    env: () => ({ MIDTRANS_BASE_URL: "http://127.0.0.1:1" }),
    what: /^Midtrans: 127\.0\.0\.1:1 is not reached/,
    remedy: /MIDTRANS_BASE_URL/,
  },
  {
    seeded: "no provider",
    env: () => ({ FIRST_PROVIDER_API_KEY: "", SECOND_PROVIDER_API_KEY: "" }),
    what: /no provider is configured/,
    remedy: /FIRST_PROVIDER_API_KEY, SECOND_PROVIDER_API_KEY/,
  },
  {
    seeded: "a provider without a key",
    env: () => ({ SECOND_PROVIDER_API_KEY: "" }),
    state: "look",
    what: /\d+ models of the provider second answer 503/,
    remedy: /set SECOND_PROVIDER_API_KEY/,
  },
  {
    seeded: "a key that the provider refuses",
    env: () => ({ FIRST_PROVIDER_API_KEY: "stale" }),
    what: /first: .* refuses the key \(401\)/,
    remedy: /set FIRST_PROVIDER_API_KEY/,
  },
  {
    seeded: "a key in quotes",
    env: () => ({ FIRST_PROVIDER_API_KEY: '"right"' }),
    what: /white space or a quote/,
    remedy: /bare/,
  },
  {
    seeded: "a key with a character that no header takes",
    env: () => ({ FIRST_PROVIDER_API_KEY: "sk–right" }),
    what: /^FIRST_PROVIDER_API_KEY has a character that no key has/,
    remedy: /copy it anew/,
  },
  {
    seeded: "a provider that is away",
    env: () => ({ PROVIDERS_FILE: providersAt("http://127.0.0.1:1") }),
    what: /first: 127\.0\.0\.1:1 is not reached/,
    remedy: /base_url/,
  },
  {
    seeded: "a key that travels in the clear",
    env: () => ({ PROVIDERS_FILE: providersAt("http://provider.invalid") }),
    what: /travels to provider\.invalid unencrypted/,
    remedy: /https:/,
  },
  {
    seeded: "a clock that is wrong",
    env: () => ({ PROVIDERS_FILE: providersAt(`${provider.url.origin}/late`) }),
    what: /this machine's clock is \d+ s ahead of/,
    remedy: /time service/,
  },
  {
    seeded: "a catalogue that is not there",
    env: () => ({ CATALOGUE_FILE: "/nowhere.json" }),
    what: /\/nowhere\.json/,
    remedy: /CATALOGUE_FILE/,
  },
  {
    seeded: "a field that nobody knows",
    env: () => ({ PROVIDERS_FILE: providersAt(provider.url.origin, { colour: "red" }) }),
    state: "look",
    what: /passed over: .*colour/,
    remedy: /correct its name/,
  },
  {
    seeded: "a data directory that is a file",
    env: () => ({ DATA_DIR: file("a-file", {}) }),
    what: /is no directory/,
    remedy: /set DATA_DIR/,
  },
  {
    seeded: "a database that is not whole",
    env: () => (directory("broken/pg"), { DATA_DIR: directory("broken") }),
    what: /is damaged/,
    remedy: /restore/,
  },
  {
    seeded: "a TMPDIR that is too long",
    env: () => ({ TMPDIR: directory("long/".padEnd(100, "x")) }),
    what: /too long for the path of a socket/,
    remedy: /such as \/tmp/,
  },
  {
    seeded: "a TMPDIR that is not there",
    env: () => ({ TMPDIR: "/dev/null/nowhere" }),
    what: /nothing can be made in TMPDIR \/dev\/null\/nowhere/,
    remedy: /write to/,
  },
  {
    seeded: "a port that is taken",
    env: () => ({ PORT: String(provider.port) }),
    what: /something else listens on/,
    remedy: /ss -ltnp/,
  },
  {
    seeded: "a HOST of another machine",
    env: () => ({ HOST: "203.0.113.1" }),
    what: /cannot be listened on/,
    remedy: /ip addr/,
  },
  {
    seeded: "a limit on requests",
    env: () => ({ BUN_CONFIG_MAX_HTTP_REQUESTS: "256" }),
    what: /BUN_CONFIG_MAX_HTTP_REQUESTS is 256/,
    remedy: /1024/,
  },
  {
    seeded: "a mail server that is away",
    env: () => ({ SMTP_URL: "smtp://127.0.0.1:1", MAIL_FROM: "a@b.id" }),
    what: /mail server 127\.0\.0\.1 does not take us/,
    remedy: /SMTP_URL/,
  },
  {
    seeded: "a search server that is away",
    env: () => ({ SEARCH_URL: "http://127.0.0.1:1" }),
    what: /search server does not answer/,
    remedy: /SEARCH_URL/,
  },
  {
    seeded: "a search server without JSON",
    env: () => ({ SEARCH_URL: provider.url.origin }),
    what: /without results/,
    remedy: /format json/,
  },
  {
    seeded: "a database server that is away",
    env: () => ({ DATABASE_URL: "postgres://a@127.0.0.1:1/a" }),
    what: /^127\.0\.0\.1:1 is not reached|^nowhere\.invalid:5432 is not reached/,
    remedy: /start the server/,
  },
  {
    seeded: "a database host that nobody knows",
    env: () => ({ DATABASE_URL: "postgres://a@nowhere.invalid/a" }),
    what: /^127\.0\.0\.1:1 is not reached|^nowhere\.invalid:5432 is not reached/,
    remedy: /name is not known|name server/,
  },
  // All connections to the embedded database are one session, as behind a pooler in transaction mode.
  {
    seeded: "a pooler in transaction mode",
    env: () => ({ DATABASE_URL: database.url }),
    what: /shares sessions among connections/,
    remedy: /pool_mode = session/,
  },
]

for (const { seeded, env, state = "wrong", what, remedy } of rows) {
  test(`${seeded} is named, with what to do`, async () => {
    const { code, found } = await doctor({ ...inOrder(), ...env() })
    const named = found.filter((each) => each.state === state && what.test(each.what))
    if (named.length === 0) throw new Error(`not named among\n${JSON.stringify(found, null, 1)}`)
    expect(named[0]?.remedy).toMatch(remedy)
    if (state === "wrong") expect(code).toBe(1)
  })
}

const findings = async () => (await doctor({ ...inOrder(), DATABASE_URL: database.url })).found.map(({ what }) => what)

test("the schema's version, the catalogue and the books are looked at too", async () => {
  expect(await findings()).toContain("the catalogue is empty")
  await direct.sql`insert into reconciliations (ended_at, claims, differences, not_compared) values (now(), '[]', 3, 0)`
  expect(await findings()).toContain("the last reconciliation found 3 differences")
  await direct.sql`insert into reconciliations (ended_at, claims, differences, not_compared) values (now(), '[]', 1, 0)`
  expect(await findings()).toContain("the last reconciliation found 1 difference")
  await direct.sql`insert into schema_migrations (name, sha256) values ('9999_future.sql', '')`
  expect(await findings()).toContain("the schema is of another version: 9999_future.sql")
  await direct.sql`delete from schema_migrations where name in ('9999_future.sql', '0030_gathered_answers.sql')`
  expect(await findings()).toContain("1 migrations are to be applied")
})

test("a process that may open too few files is told how many it needs", async () => {
  const child = Bun.spawn(["sh", "-c", 'ulimit -n 300; exec "$0" src/main.ts doctor', process.execPath], {
    cwd: join(import.meta.dir, "../.."),
    env: { PATH: process.env["PATH"], ...inOrder() },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  })
  const said = await new Response(child.stdout).text()
  expect(said).toContain(
    "the process may open 300 files; MAX_CONCURRENCY=4096 needs 8392\n         → set LimitNOFILE=65536",
  )
  expect(await child.exited).toBe(1)
})

test("a password or a key is never shown", async () => {
  const env = {
    ...inOrder(),
    DATABASE_URL: "postgres://somebody:hunter2@127.0.0.1:1/a",
    FIRST_PROVIDER_API_KEY: "sk-hunter3",
  }
  const { said, complaint } = await loket(env, "doctor")
  expect(said + complaint).not.toMatch(/hunter/)
})

const whatOfMail = async (SMTP_URL: string) => {
  const config = configuration({ SMTP_URL, MAIL_FROM: "a@b.id", PUBLIC_URL: "https://loket.example" })
  return (await mail(config)).map(({ what }) => what)
}

test("mail that may go unencrypted across a network is looked at, and what stands against that is obeyed", async () => {
  const asked = "mail to mail.invalid goes unencrypted where nobody offers TLS"
  expect(await whatOfMail("smtp://mail.invalid")).toEqual([asked, expect.stringContaining("does not take us")])
  for (const SMTP_URL of ["smtps://mail.invalid", "smtp://mail.invalid?requireTLS=true"])
    expect(await whatOfMail(SMTP_URL)).toEqual([expect.stringContaining("does not take us")])
  // It offers none.
  const server = new MailServer()
  using _stopped = { [Symbol.dispose]: () => void server.stop() }
  const address = `smtp://127.0.0.1:${await server.port}`
  expect(await whatOfMail(address)).toEqual(["the mail server 127.0.0.1 takes us"])
  expect(await whatOfMail(`${address}?requireTLS=true`)).toEqual([expect.stringContaining("does not take us")])
})

test("mail without a public address is looked at: its links would lead nowhere", async () => {
  const server = new MailServer()
  const environment = { SMTP_URL: `smtp://127.0.0.1:${await server.port}`, MAIL_FROM: "a@b.id" }
  const found = async (more: Record<string, string>) =>
    (await mail(configuration({ ...environment, ...more }))).map(({ what }) => what)
  expect(await found({ PUBLIC_URL: "https://loket.example" })).toEqual(["the mail server 127.0.0.1 takes us"])
  expect((await found({}))[1]).toStartWith("PUBLIC_URL is unset")
  await server.stop()
})
