/** The configuration as the operator sees it, by the commands (decisions §9). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { covers } from "../contract/rows.ts"
import { engineSettings } from "./dev-process.ts"

let directory: string
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "loket-config-"))
})
afterAll(() => rmSync(directory, { recursive: true }))

/** Runs a command to its end. None of these may get as far as listening. */
async function run(command: string, env: Record<string, string>) {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "../../src/main.ts"), command], {
    cwd: directory,
    env: { ...engineSettings, PATH: Bun.env.PATH ?? "", DATA_DIR: join(directory, "data"), ...env },
    stdout: "pipe",
    stderr: "pipe",
  })
  const [exitCode, out, err] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  return { exitCode, out, err }
}

describe(covers("9.environment"), () => {
  test("all that is wrong is told at once, and the command exits with 1", async () => {
    const { exitCode, out, err } = await run("start", { PORT: "http", LOG_LEVEL: "loud", FIRST_PROVIDER_API_KEY: "k" })
    expect(exitCode).toBe(1)
    expect(out).toBe("")
    expect(err.trim().split("\n")).toEqual([
      'PORT is "http"; allowed is a whole number from 0 to 65535',
      'LOG_LEVEL is "loud"; allowed is debug, info, warn, error',
    ])
  })
  test("seed and dev read it too", async () => {
    for (const command of ["seed", "dev"]) {
      const { exitCode, err } = await run(command, { DRAIN_MS: "soon" })
      expect(exitCode).toBe(1)
      expect(err).toStartWith('DRAIN_MS is "soon"; allowed is a whole number')
    }
  })
})

describe(covers("9.start"), () => {
  test("start refuses without a configured provider, and names the variables", async () => {
    for (const env of [{}, { FIRST_PROVIDER_API_KEY: "" }] as Record<string, string>[]) {
      const { exitCode, err } = await run("start", env)
      expect(exitCode).toBe(1)
      expect(err).toContain("no provider is configured")
      expect(err).toContain("FIRST_PROVIDER_API_KEY")
      expect(err).not.toContain("    at ")
    }
  })
  test("a provider's key that no header takes stops the start, and is named and not told", async () => {
    for (const key of ["sk–secret", "sk-\nsecret", "\uFEFFsk-secret"]) {
      const env = { FIRST_PROVIDER_API_KEY: key, SECOND_PROVIDER_API_KEY: " sk-right\n", PORT: "0" }
      const { exitCode, err } = await run("start", env)
      expect(exitCode).toBe(1)
      expect(err).toStartWith("FIRST_PROVIDER_API_KEY has a character that no key has")
      expect(err).not.toMatch(/secret|SECOND_/)
    }
  })
  test("a limit of requests in flight that is none is told", async () => {
    for (const limit of ["1023", "many"]) {
      const { exitCode, err } = await run("start", { BUN_CONFIG_MAX_HTTP_REQUESTS: limit, FIRST_PROVIDER_API_KEY: "k" })
      expect([exitCode, err]).toEqual([
        1,
        expect.stringContaining(`BUN_CONFIG_MAX_HTTP_REQUESTS is ${limit}; at least`),
      ])
    }
  })
  test("where it cannot listen is told with the variables that say so", async () => {
    using taken = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() })
    const rows = [
      [{ HOST: "nonsense", PORT: "0" }, "HOST and PORT: nonsense:0 cannot be listened on"],
      [{ PORT: String(taken.port) }, `HOST and PORT: 127.0.0.1:${taken.port} cannot be listened on`],
      [
        { PORT: "0", METRICS_PORT: String(taken.port) },
        `HOST and METRICS_PORT: 127.0.0.1:${taken.port} cannot be listened on`,
      ],
      [
        { PORT: "0", METRICS_PORT: String(taken.port), WORKERS: "2", DATABASE_URL: "postgres://127.0.0.1:1/none" },
        `HOST and METRICS_PORT: 127.0.0.1:${taken.port} cannot be listened on`,
      ],
    ] as const
    for (const [env, complaint] of rows) {
      const { exitCode, err } = await run("start", { FIRST_PROVIDER_API_KEY: "k", ...env })
      expect([exitCode, err]).toEqual([1, expect.stringContaining(complaint)])
    }
  })
  test("an unknown command is told which there are", async () => {
    const { exitCode, err } = await run("run", {})
    expect(exitCode).toBe(2)
    expect(err).toStartWith("error: unknown command 'run'")
  })
  test("a seed file that is not there is told by its variable and its name", async () => {
    for (const variable of ["CATALOGUE_FILE", "PROVIDERS_FILE"]) {
      const { exitCode, err } = await run("start", { [variable]: "/nowhere/file.json", FIRST_PROVIDER_API_KEY: "k" })
      expect(exitCode).toBe(1)
      expect(err).toContain(`${variable}: /nowhere/file.json: found no such file; allowed: a JSON file`)
      expect(err).not.toContain("    at ")
    }
  })
})
