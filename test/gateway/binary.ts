/**
 * The built binary as a gateway under test: alone in an empty directory, with an environment that has nothing but its
 * configuration. `bun run test:binary` builds it and sets LOKET_BINARY. Its database is the embedded one that it makes
 * there, or with `LOKET_TEST_DATABASE=postgres` one of the server's.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { CatalogueFile } from "../../src/catalogue/schema.ts"
import type { Sql } from "../../src/store/database.ts"
import { embeddedAddress, openEmbedded } from "../../src/store/embedded/open.ts"
import type { Backend } from "../../src/upstream/providers.ts"
import { directConnection, onPostgres, openTestDatabase, templateCopy } from "../store/harness.ts"
import { eachLine } from "../lines.ts"

/** Undefined where the gateway runs in the process of the test. */
export const binary = Bun.env["LOKET_BINARY"] || undefined

/** For tests that reach into the gateway: they wait for something inside it, or set what no variable sets. */
export const hasNoInside = binary !== undefined
/** For tests that put something between the gateway and its database: the embedded one of a binary is its own alone. */
export const hasOwnDatabase = binary !== undefined && !onPostgres

/** As if the machine had no time for it. */
export async function standStill(pid: number, ms: number): Promise<void> {
  process.kill(pid, "SIGSTOP")
  await Bun.sleep(ms)
  process.kill(pid, "SIGCONT")
}

export interface BinaryOptions {
  readonly env: Readonly<Record<string, string>>
  readonly catalogueFile: CatalogueFile
  readonly backends: readonly Backend[]
  /** Of the address of a server's database: the gateway's own way there. */
  readonly databaseUrl: ((url: string) => string | Promise<string>) | undefined
  /** Told each line of its log, and of its standard error. */
  readonly heard: (line: string) => void
}

export interface StartedBinary {
  readonly url: string
  readonly pid: number
  /** Of the embedded database after `stop` too: then the test has it. */
  sql(): Sql
  /** Runs a command beside it; throws with what it said. */
  run(...parameters: string[]): Promise<void>
  /** SIGTERM, until it has ended; throws when its exit code is not 0. */
  stop(): Promise<void>
  /** Makes `sql` work again, of a database that has ended with the binary. */
  reopen(): Promise<void>
  /** Ends it if it runs, and clears everything away. */
  close(): Promise<void>
}

export async function startBinary(program: string, options: BinaryOptions): Promise<StartedBinary> {
  await using stack = new AsyncDisposableStack()
  const directory = mkdtempSync(join(tmpdir(), "loket-alone-"))
  stack.defer(() => rmSync(directory, { recursive: true, force: true }))
  const seeds = mkdtempSync(join(tmpdir(), "loket-seeds-"))
  stack.defer(() => rmSync(seeds, { recursive: true, force: true }))
  const file = (name: string, content: object) => {
    writeFileSync(join(seeds, name), JSON.stringify(content))
    return join(seeds, name)
  }
  // What the first start makes there, which test/processes/build.test.ts waits for, is waited for once.
  const dataDir = onPostgres ? join(directory, "data") : await templateCopy()
  stack.defer(() => rmSync(dataDir, { recursive: true, force: true }))
  const database = onPostgres ? stack.use(await openTestDatabase()) : undefined
  if (database === undefined && options.databaseUrl !== undefined)
    throw new Error("nothing can stand before a binary's embedded database: ask `hasOwnDatabase`")
  const { providers, keys } = providersOf(options.backends)
  const env = {
    PORT: "0",
    DATA_DIR: dataDir,
    CATALOGUE_FILE: file("catalogue.json", options.catalogueFile),
    PROVIDERS_FILE: file("providers.json", { providers }),
    ...keys,
    ...(database && { DATABASE_URL: (await options.databaseUrl?.(database.url)) ?? database.url }),
    ...options.env,
  }
  const child = Bun.spawn([program, "start"], { cwd: directory, env, stdin: "ignore", stdout: "pipe", stderr: "pipe" })
  const kill = () => child.kill("SIGKILL")
  // A test that timed out clears nothing away.
  process.on("exit", kill)
  stack.defer(async () => {
    kill()
    await child.exited
    process.off("exit", kill)
  })
  const listening = Promise.withResolvers<string>()
  const lines: string[] = []
  const hear = (line: string) => {
    const found = /"event":"listening","url":"([^"]+)"/.exec(line)?.[1]
    if (found !== undefined) listening.resolve(found)
    lines.push(line)
    options.heard(line)
  }
  const silent = Promise.all([eachLine(child.stdout, hear), eachLine(child.stderr, hear)])
  void silent.then(() => listening.reject(new Error(`the binary did not start:\n${lines.join("\n")}`)))
  const url = await listening.promise
  const address = database?.url ?? embeddedAddress(dataDir)
  if (address === undefined) throw new Error("the binary does not tell where its database is")
  let connection = directConnection(address)
  stack.defer(() => connection.end())
  const kept = stack.move()
  return {
    url,
    pid: child.pid,
    sql: () => connection.sql,
    async run(...parameters) {
      const beside = Bun.spawn([program, ...parameters], { cwd: directory, env, stdout: "pipe", stderr: "pipe" })
      const complaint = await new Response(beside.stderr).text()
      if ((await beside.exited) !== 0) throw new Error(`${parameters.join(" ")}: ${complaint}`)
    },
    async stop() {
      child.kill("SIGTERM")
      const code = await child.exited
      await silent
      if (code !== 0) throw new Error(`the binary ended with ${code}:\n${lines.slice(-5).join("\n")}`)
    },
    async reopen() {
      if (database !== undefined) return
      await connection.end()
      const embedded = await openEmbedded({ dataDir })
      kept.defer(() => embedded.close())
      connection = directConnection(embedded.url)
    },
    close: () => kept.disposeAsync(),
  }
}

const variable = (...words: string[]) => words.join("_").toUpperCase().replaceAll(/\W/g, "_")

/** The providers file, and the variables that have its keys. */
function providersOf(backends: readonly Backend[]) {
  const keys: Record<string, string> = {}
  const providers = [...Map.groupBy(backends, ({ provider }) => provider.id)].map(([id, of]) => {
    const { label, baseUrl, headers } = of[0]!.provider
    const region = of.find(({ signing }) => signing !== undefined)?.signing?.region
    const credentials = of.map(({ credential, apiKey, signing }) => {
      const env = variable("key", id, credential.name)
      keys[env] = apiKey
      if (signing === undefined) return { name: credential.name, env, weight: credential.weight }
      const secret = variable("secret", id, credential.name)
      keys[secret] = signing.secretAccessKey
      return { name: credential.name, env, weight: credential.weight, secret_key_env: secret }
    })
    const auth = region === undefined ? {} : { auth: "sigv4", region }
    return { id, label: label || id, base_url: baseUrl, headers, keys: credentials, ...auth }
  })
  return { providers, keys }
}
