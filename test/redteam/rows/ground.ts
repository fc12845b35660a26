/** Machines and files: H1, H2, and what is small. S1: modes of files, S2: `dev` for everybody, S3: Host and HTTPS. */
import { chmodSync, existsSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { runtimeSettings } from "../../../src/own-process.ts"
import type { Arena } from "../lib/arena.ts"
import { exchange } from "../lib/raw.ts"
import { type Finding, NotPlayed, type Row } from "../lib/row.ts"

/** The longest that the server may wait before it asks a silent gateway whether it lives. */
const KEEPALIVE_S = 15

/** The server's own timers on its connections, as the kernel shows them. */
async function keepalives(arena: Arena): Promise<Finding[]> {
  if (arena.place.url === undefined) throw new NotPlayed("no PostgreSQL server, whose sockets could be looked at")
  if (Bun.which("ss") === null) throw new NotPlayed("ss is not here, which shows a socket's timers")
  const [row] = await arena.place.books(
    (sql) => sql<{ ports: number[] }[]>`
      select coalesce(array_agg(client_port), '{}') as ports from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and client_port > 0`,
  )
  const shown = Bun.spawnSync(["ss", "-tno", "state", "established"]).stdout.toString().split("\n")
  const server = new URL(arena.place.url).port || "5432"
  const timers = (row?.ports ?? []).map((port) => {
    const line = shown.find((each) => new RegExp(`:${server}\\s+\\S+:${port}\\b`).test(each)) ?? ""
    return secondsOf(/timer:\(keepalive,([^,]+)/.exec(line)?.[1])
  })
  const quick = timers.filter((seconds) => seconds !== undefined && seconds <= KEEPALIVE_S)
  return [
    {
      tried: "the server's keepalive timers on a gateway's connections",
      seen: `${quick.length} of ${timers.length} within ${KEEPALIVE_S} s${timers.length > quick.length ? `, the others ${Math.max(...timers.map((each) => each ?? 0))} s` : ""}`,
      held: quick.length > 0,
    },
  ]
}

/** As ss says it: 119min, 4.9sec, 980ms. */
function secondsOf(text: string | undefined): number | undefined {
  const found = /^([\d.]+)(ms|sec|min|hour|day)/.exec(text ?? "")
  const unit = { ms: 0.001, sec: 1, min: 60, hour: 3_600, day: 86_400 }[found?.[2] ?? ""]
  return unit === undefined ? undefined : Number(found?.[1]) * unit
}

interface Started {
  readonly said: string
  /** Undefined while it runs. */
  readonly code: number | undefined
}

/** A command of the gateway, until it listens or ends; then it is ended. */
async function start(root: string, env: Readonly<Record<string, string>>, command: string): Promise<Started> {
  const child = Bun.spawn(["bun", resolve(root, "src/main.ts"), command], {
    env: { PATH: process.env["PATH"] ?? "", ...runtimeSettings, PORT: "0", ...env },
    stdout: "pipe",
    stderr: "pipe",
  })
  let said = ""
  const { promise: listening, resolve: listens } = Promise.withResolvers<undefined>()
  const hear = async (stream: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder()
    for await (const bytes of stream) {
      said += decoder.decode(bytes, { stream: true })
      if (said.includes('"event":"listening"')) listens(undefined)
    }
  }
  const heard = Promise.all([hear(child.stdout), hear(child.stderr)])
  const timer = setTimeout(() => listens(undefined), 60_000)
  const code = await Promise.race([child.exited, listening])
  clearTimeout(timer)
  child.kill("SIGTERM")
  await Promise.race([child.exited, Bun.sleep(10_000)])
  child.kill("SIGKILL")
  await child.exited
  await heard
  return { said, code }
}

/** What every start of this row is given, with its data in a directory of its own. */
async function withData(
  arena: Arena,
  work: (dataDir: string, run: () => Promise<Started>) => Promise<Finding[]>,
): Promise<Finding[]> {
  const directory = mkdtempSync(join(tmpdir(), "loket-redteam-ground-"))
  const dataDir = join(directory, "data")
  const providers = join(directory, "providers.json")
  const list = ["first", "second"].map((id) => ({ id, label: id, base_url: arena.backend.url, api_key_env: "KEY" }))
  await Bun.write(providers, JSON.stringify({ providers: list }))
  mkdirSync(dataDir)
  try {
    return await work(dataDir, () =>
      start(arena.root, { DATA_DIR: dataDir, PROVIDERS_FILE: providers, KEY: "key" }, "start"),
    )
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

/** What is left of a database after an interrupted restore: files, and none that says which database they are. */
const remains = (arena: Arena) =>
  withData(arena, async (dataDir, run) => {
    const database = join(dataDir, "pg")
    mkdirSync(join(database, "base/5"), { recursive: true })
    await Bun.write(join(database, "base/5/1259"), "rows")
    const { code, said } = await run()
    const refused = code !== undefined && code !== 0
    return [
      {
        tried: "an embedded database whose PG_VERSION is gone",
        seen: refused ? `refused: ${lastLine(said)}` : "made over, all in it is lost",
        held: refused && said.includes(dataDir) && /backup/i.test(said) && !existsSync(join(database, "PG_VERSION")),
      },
    ]
  })

const modes = (arena: Arena) =>
  withData(arena, async (dataDir, run) => {
    chmodSync(dataDir, 0o755)
    const { code, said } = await run()
    const made = existsSync(join(dataDir, "pg/PG_VERSION"))
    const open = reachable(dataDir)
    return [
      {
        tried: "an embedded database in a directory that was there, mode 755",
        seen: made ? `${open} files that others may read or write` : `it did not start: ${lastLine(said)}`,
        held: made ? open === 0 : code !== undefined,
      },
    ]
  })

const lastLine = (text: string): string => (text.trim().split("\n").at(-1) ?? "").slice(0, 160)

/** Files that somebody else on the machine reaches: every directory above them lets others through. */
function reachable(directory: string): number {
  if ((lstatSync(directory).mode & 0o011) === 0) return 0
  let open = 0
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) open += reachable(path)
    else if (entry.isFile() && (lstatSync(path).mode & 0o066) !== 0) open++
  }
  return open
}

/** In a network of its own, where nobody reaches it. */
async function everybody(arena: Arena): Promise<Finding[]> {
  const apart = Bun.spawnSync(["unshare", "-rn", "true"]).success
  if (!apart) throw new NotPlayed("no network of its own can be made here, in which to listen for everybody")
  const directory = mkdtempSync(join(tmpdir(), "loket-redteam-dev-"))
  const run = async (env: Readonly<Record<string, string>>) => {
    const child = Bun.spawn(
      [
        "unshare",
        "-rn",
        "sh",
        "-c",
        'ip link set lo up; exec "$@"',
        "sh",
        "bun",
        resolve(arena.root, "src/main.ts"),
        "dev",
      ],
      {
        env: {
          PATH: process.env["PATH"] ?? "",
          ...runtimeSettings,
          HOST: "0.0.0.0",
          PORT: "0",
          DATA_DIR: join(directory, "data"),
          ...env,
        },
        stdout: "pipe",
        stderr: "pipe",
      },
    )
    let said = ""
    const { promise, resolve: ready } = Promise.withResolvers<undefined>()
    const hear = async (stream: ReadableStream<Uint8Array>) => {
      const decoder = new TextDecoder()
      for await (const bytes of stream) {
        said += decoder.decode(bytes, { stream: true })
        if (said.includes('"event":"listening"')) ready(undefined)
      }
    }
    const heard = Promise.all([hear(child.stdout), hear(child.stderr)])
    const code = await Promise.race([child.exited, promise, Bun.sleep(60_000)])
    child.kill("SIGTERM")
    await Promise.race([child.exited, Bun.sleep(8_000)])
    child.kill("SIGKILL")
    await child.exited
    await heard
    return { said, code }
  }
  try {
    const withKey = await run({ FIRST_PROVIDER_API_KEY: "a real one" })
    const without = await run({})
    const warned = /"level":"warn".*(HOST|loopback|reach|0\.0\.0\.0|anybody)/i.test(without.said)
    return [
      {
        tried: "dev on 0.0.0.0 with a provider's key",
        seen: typeof withKey.code === "number" ? `refused: ${lastLine(withKey.said)}` : "it listens",
        held: typeof withKey.code === "number" && withKey.code !== 0,
      },
      {
        tried: "dev on 0.0.0.0 without",
        seen: warned ? "it warns" : `no warning (${lastLine(without.said)})`,
        held: warned,
      },
    ]
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

const statusOf = (text: string) => /HTTP\/1.1 (\d+)/.exec(text)?.[1] ?? "closed"
const hsts = (response: Response) => response.headers.get("strict-transport-security")

async function edge(arena: Arena): Promise<Finding[]> {
  const hosts = await exchange(arena.url, "GET /models HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n")
  const plain = await fetch(`${arena.url}/models`)
  const secure = await fetch(`${arena.url}/models`, { headers: { "X-Forwarded-Proto": "https" } })
  return [
    { tried: "two Host headers", seen: statusOf(hosts), held: statusOf(hosts) === "400" },
    {
      tried: "a request that came by https, and one that did not",
      seen: `${hsts(secure) ?? "no Strict-Transport-Security"}; ${hsts(plain) ?? "none"}`,
      held: hsts(secure) !== null && hsts(plain) === null,
    },
  ]
}

export const groundRows: readonly Row[] = [
  { id: "H1", wanted: "a gateway whose machine is gone is noticed within seconds", play: keepalives },
  { id: "H2", wanted: "refused and left as it is", play: remains },
  { id: "S1", long: true, wanted: "closed to others", play: modes },
  { id: "S2", long: true, wanted: "refused with a real key, a warning without", play: everybody },
  { id: "S3", wanted: "400; the header over https only", play: edge },
]
