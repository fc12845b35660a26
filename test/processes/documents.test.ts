/**
 * The command blocks of `docs/operating`, run as they stand, a page's in their order and in a place of its own. A block says
 * behind its language what it is: `untried: <reason>` is not run, `serves` goes on until its page ends, `postgres` needs a server
 * (`bun run test:postgres`). Paths below /etc, /usr/local and /var are in the scratch directory.
 */
import { describe, expect, test } from "bun:test"
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { freePort } from "../free-port.ts"
import { onPostgres, openTestDatabase, templateCopy } from "../store/harness.ts"
import { type Block, blocksOf, operatingPages, root } from "./blocks.ts"
import { engineSettings } from "./dev-process.ts"

const COMMANDS = ["sh", "sql"]
const OTHERS = ["text", "ini", "json", "yaml", "nginx", "haproxy", "caddyfile"]
const untried = /^untried: \S+ \S+/

const all = (await Promise.all(operatingPages().map(blocksOf))).flat()
const tried = all.filter(({ language, info }) => COMMANDS.includes(language) && !untried.test(info))
const ofThisKind = tried.filter(({ info }) => info.split(" ").includes("postgres") === onPostgres)

test("every block of the documents for operators says what it is, and which of them are not run", () => {
  const unknown = all.filter(({ language, info }) =>
    COMMANDS.includes(language)
      ? !/^(?:serves ?)?(?:postgres)?$/.test(info) && !untried.test(info)
      : info !== "" || !OTHERS.includes(language),
  )
  expect(unknown.map(({ path, line }) => `${path}:${line}`)).toEqual([])
  for (const { path, info } of all)
    for (const [named] of info.matchAll(/test\/[\w/-]+\.test\.ts/g))
      expect([path, named, existsSync(join(root, named))]).toEqual([path, named, true])
  expect(tried.length).toBeGreaterThan(10)
})

/** A machine for one page: its directories, its programs and its environment, with a gateway where the page has none. */
class Machine implements AsyncDisposable {
  readonly directory = mkdtempSync(join(tmpdir(), "loket-documents-"))
  readonly #env: Record<string, string>
  readonly #replaced: readonly (readonly [RegExp, string])[]
  #gateway: Bun.Subprocess | undefined
  readonly #stack: AsyncDisposableStack

  private constructor(stack: AsyncDisposableStack, env: Record<string, string>, replaced: [RegExp, string][]) {
    this.#stack = stack
    const programs = join(this.directory, "programs")
    for (const directory of ["programs", "dist", "var/tmp", "var/backups"])
      mkdirSync(join(this.directory, directory), { recursive: true })
    const shim = `#!/bin/sh\nexec '${process.execPath}' --no-orphans '${root}/src/main.ts' "$@"\n`
    for (const place of [programs, join(this.directory, "dist")])
      writeFileSync(join(place, "loket"), shim, { mode: 0o755 })
    symlinkSync(join(root, "docs"), join(this.directory, "docs"))
    this.#env = {
      PATH: `${programs}:${process.env["PATH"]}`,
      HOME: this.directory,
      LOG_LEVEL: "warn",
      ...engineSettings,
      ...env,
    }
    this.#replaced = [...replaced, [/(?<![\w.])\/(?=(?:etc|usr\/local|var)\/)/g, `${this.directory}/`]]
  }

  static async start(): Promise<Machine> {
    const stack = new AsyncDisposableStack()
    const [port, metricsPort] = [freePort(), freePort()]
    const env: Record<string, string> = { PORT: String(port), METRICS_PORT: String(metricsPort) }
    const replaced: [RegExp, string][] = [[/127\.0\.0\.1:8787/g, `127.0.0.1:${port}`]]
    const database = stack.use(await openTestDatabase())
    if (onPostgres) {
      const url = new URL(database.url)
      const name = url.pathname.slice(1)
      env["DATABASE_URL"] = url.href
      replaced.push([/postgres:\/\/loket@db\.internal\/loket/g, url.href], [/loket_rehearsal/g, `${name}_rehearsal`])
    }
    const machine = new Machine(stack, env, replaced)
    const dataDir = join(machine.directory, "var/lib/loket")
    mkdirSync(dirname(dataDir), { recursive: true })
    machine.#env["DATA_DIR"] = dataDir
    if (!onPostgres) Bun.spawnSync(["cp", "-a", await templateCopy(), dataDir])
    return machine
  }

  get url(): string {
    return `http://127.0.0.1:${this.#env["PORT"]}`
  }

  here(text: string): string {
    return this.#replaced.reduce((each, [theirs, ours]) => each.replaceAll(theirs, () => ours), text)
  }

  /** Starts a block that goes on, waits until it takes calls, and signs somebody up. */
  async serve(text: string): Promise<void> {
    // The shell gives its place to the gateway, which is then asked to end.
    const child = this.#spawn(text.replace(/loket start\s*$/, "exec loket start"), {})
    this.#gateway = child
    for (let attempt = 0; ; attempt++) {
      const response = await fetch(`${this.url}/readyz`).catch(() => undefined)
      if (response?.ok) break
      if (attempt > 600 || child.exitCode !== null) throw new Error(await this.#ended(child))
      await Bun.sleep(50)
    }
    const body = JSON.stringify({ email: "you@example.com", password: "correct horse battery" })
    expect((await fetch(`${this.url}/auth/sign-up`, { method: "POST", body })).status).toBe(201)
  }

  /** A shell's block, to its end. */
  async run(text: string, env: Record<string, string> = {}): Promise<{ readonly code: number; readonly said: string }> {
    const child = this.#spawn(text, env)
    const [said, complaint, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ])
    return { code, said: said + complaint }
  }

  /** Asks the gateway to end, and returns its exit code. */
  async stop(): Promise<number | undefined> {
    this.#gateway?.kill("SIGTERM")
    return await this.#gateway?.exited
  }

  #spawn(text: string, env: Record<string, string>) {
    return Bun.spawn(["sh", "-euc", this.here(text)], {
      cwd: this.directory,
      env: { ...this.#env, ...env },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    })
  }

  async #ended(child: Bun.Subprocess<"ignore", "pipe", "pipe">): Promise<string> {
    child.kill("SIGKILL")
    return `it does not serve: ${await new Response(child.stdout).text()}${await new Response(child.stderr).text()}`
  }

  async [Symbol.asyncDispose]() {
    this.#gateway?.kill("SIGKILL")
    await this.#gateway?.exited
    await this.#stack.disposeAsync()
    rmSync(this.directory, { recursive: true, force: true })
  }
}

const isServing = ({ info }: Block) => info.startsWith("serves")
/** SQL as an operator types it into psql, with the extension that the page asks for, and without leaving a trace. */
const shellOf = ({ language, text }: Block): string =>
  language === "sh"
    ? text
    : `psql "$DATABASE_URL" -v ON_ERROR_STOP=1 -v name="'x'" <<'END'
begin;
create extension if not exists pgcrypto;
${text}rollback;
END
`

describe.each([...new Set(ofThisKind.map(({ path }) => path))])("%s", (path) => {
  test("its commands do what it says", async () => {
    const blocks = ofThisKind.filter((block) => block.path === path)
    await using machine = await Machine.start()
    const own = blocks.some(isServing)
    if (!own) await machine.serve("FIRST_PROVIDER_API_KEY=x loket start")
    for (const block of blocks) {
      if (isServing(block)) await machine.serve(block.text)
      else {
        const { code, said } = await machine.run(shellOf(block))
        if (code !== 0) throw new Error(`${path}:${block.line} ended with ${code}:\n${said}`)
      }
    }
    expect(await machine.stop()).toBe(0)
  })
})

const containerfile = await Bun.file(join(root, "Containerfile")).text()

describe.skipIf(onPostgres)("Containerfile", () => {
  const lines = containerfile.replaceAll("\\\n", "").split("\n")
  const argsOf = (name: string) =>
    lines
      .find((line) => line.startsWith(`${name} `))
      ?.slice(name.length)
      .replace(/^.*?CMD /, "") ?? "[]"

  test("its health check is content with a gateway that lives, and with nothing else", async () => {
    const check = JSON.parse(argsOf("HEALTHCHECK")) as string[]
    await using machine = await Machine.start()
    const { port } = new URL(machine.url)
    const isHealthy = async () =>
      (await Bun.spawn(check, { env: { PATH: process.env["PATH"], PORT: port }, stdio: ["ignore", "ignore", "ignore"] })
        .exited) === 0
    expect(await isHealthy()).toBe(false)
    await machine.serve("FIRST_PROVIDER_API_KEY=x loket start")
    expect(await isHealthy()).toBe(true)
    expect(await machine.stop()).toBe(0)
    using _ = Bun.serve({ port, hostname: "127.0.0.1", fetch: () => new Response("", { status: 503 }) })
    expect(await isHealthy()).toBe(false)
  })

  test("podman is told to keep its health check, which images of its own format have no place for", async () => {
    const install = await Bun.file(join(root, "docs/operating/install.md")).text()
    expect(install.match(/^podman build .*$/gm)).toEqual([
      "podman build --format docker -t loket -f Containerfile dist",
    ])
  })

  test("what it starts is a command of the binary, as a user that is not root", () => {
    expect(lines).toContain('ENTRYPOINT ["/usr/local/bin/loket"]')
    expect(lines).toContain('CMD ["start"]')
    expect(lines).toContain("USER 10001")
    expect(lines.filter((line) => line.startsWith("COPY "))).toEqual(["COPY --chmod=0755 loket /usr/local/bin/loket"])
  })
})
