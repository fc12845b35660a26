import { expect, test } from "bun:test"
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { bareEnvironment, DevProcess, scratchDirectory } from "./dev-process.ts"

const root = join(import.meta.dir, "../..")
/** What the demo pays has fees on top of its balance. */
const FEES = { PAYMENT_SERVICE_FEE_BPS: "150", PAYMENT_FEE_RP: "500" }
const start = (dataDir: string) => DevProcess.start([process.execPath, "src/main.ts"], root, dataDir, FEES)

/** The text that a chat stream adds up to. */
const textOf = (stream: string): string =>
  [...stream.matchAll(/^data: (\{.*)$/gm)]
    .map(([, json]) => JSON.parse(json ?? "{}") as { choices?: { delta?: { content?: string } }[] })
    .map(({ choices }) => choices?.[0]?.delta?.content ?? "")
    .join("")

test("from nothing to an answer: dev ends in a banner whose command works, and what it made is there again", async () => {
  using directory = scratchDirectory()
  const dataDir = join(directory.path, "data")
  // As a volume or a person makes it.
  mkdirSync(dataDir)
  chmodSync(dataDir, 0o755)

  const first = await start(dataDir)
  const answer = await first.tryIt()
  expect(answer.trimEnd()).toEndWith("data: [DONE]")
  expect(textOf(answer)).toContain("Hello, Loket!")
  expect(await first.stop()).toBe(0)
  const files = readdirSync(dataDir, { recursive: true, encoding: "utf8" }).map((name) => join(dataDir, name))
  expect(files.length).toBeGreaterThan(900)
  expect([dataDir, ...files].filter((path) => (statSync(path).mode & 0o077) !== 0)).toEqual([])

  await using second = await start(dataDir)
  const { key, email, password } = second.banner
  expect({ key, email, password }).toEqual({
    key: first.banner.key,
    email: first.banner.email,
    password: first.banner.password,
  })
  const signIn = await fetch(`${second.banner.url}/auth/sign-in`, {
    method: "POST",
    body: JSON.stringify({ email, password }),
  })
  const { session_token: token } = (await signIn.json()) as { session_token: string }
  const usage = await fetch(`${second.banner.url}/usage`, { headers: { Authorization: `Bearer ${token}` } })
  const { data } = (await usage.json()) as { data: { status: string; charge_micro: number }[] }
  expect(data).toMatchObject([{ status: "ok" }])
  const account = await fetch(`${second.banner.url}/account`, { headers: { Authorization: `Bearer ${token}` } })
  expect(await account.json()).toMatchObject({
    balance_micro: 100_000_000_000 - (data[0]?.charge_micro ?? 0),
    held_micro: 0,
  })
  const session = { Authorization: `Bearer ${token}` }
  const opened = await fetch(`${second.banner.url}/top-ups`, {
    method: "POST",
    headers: session,
    body: JSON.stringify({ amount_rp: 20_000 }),
  })
  const { id } = (await opened.json()) as { id: string }
  const page = `${second.banner.url}/simulated-pay/${id}`
  expect(await (await fetch(page)).text()).toContain("<button>")
  expect((await fetch(page, { method: "POST" })).status).toBe(200)
  const topUp = await fetch(`${second.banner.url}/top-ups/${id}`, { headers: session })
  expect(await topUp.json()).toMatchObject({ status: "paid" })
  expect(await second.stop()).toBe(0)
})

test("a demo account that was not written down to its end is made anew", async () => {
  using directory = scratchDirectory()
  writeFileSync(join(directory.path, "demo.json"), '{\n  "email": "demo-1@loket.exam')
  await using dev = await start(directory.path)
  expect(readFileSync(join(directory.path, "demo.json"), "utf8")).toContain(dev.banner.key)
})

/** What `dev` says, until it is ready or has ended, and its exit code. */
async function devOn(host: string, dataDir: string, env: Readonly<Record<string, string>> = {}) {
  const child = Bun.spawn([process.execPath, "src/main.ts", "dev"], {
    cwd: root,
    env: { ...bareEnvironment, PORT: "0", HOST: host, DATA_DIR: dataDir, ...env },
    stdout: "pipe",
    stderr: "pipe",
  })
  const said = { out: "", err: "" }
  const read = async (stream: ReadableStream<Uint8Array>, to: keyof typeof said) => {
    for await (const bytes of stream) said[to] += Buffer.from(bytes).toString()
  }
  const ended = Promise.all([read(child.stdout, "out"), read(child.stderr, "err")])
  // The warning comes last.
  while (child.exitCode === null && !said.err.includes("WARNING") && !said.out.includes('{"model"')) await Bun.sleep(20)
  const exitCode = child.exitCode
  child.kill("SIGTERM")
  await ended
  return { ...said, exitCode }
}

test("dev that others can reach says so in its log and last of all, and on loopback says nothing of the kind", async () => {
  using directory = scratchDirectory()
  const dataDir = join(directory.path, "data")
  const open = await devOn("0.0.0.0", dataDir)
  expect(open.exitCode).toBe(null)
  expect(open.out).toMatch(/"level":"warn","event":"dev is open to the network","host":"0\.0\.0\.0"/)
  expect(open.err).toMatch(/WARNING: this is `dev`, and it listens on 0\.0\.0\.0/)
  const own = await devOn("localhost", dataDir, { FIRST_PROVIDER_API_KEY: "a-real-key" })
  expect(own.exitCode).toBe(null)
  expect(own.out + own.err).not.toMatch(/open to the network|WARNING/)
})

test("dev that others can reach refuses to start with a provider's key, before it has done anything", async () => {
  using directory = scratchDirectory()
  const dataDir = join(directory.path, "data")
  for (const host of ["0.0.0.0", "::", "192.0.2.1"]) {
    const refused = await devOn(host, dataDir, { SECOND_PROVIDER_API_KEY: "a-real-key" })
    expect(refused.exitCode).toBe(1)
    expect(refused.err).toContain(`dev does not listen on ${host} with a provider's key (SECOND_PROVIDER_API_KEY)`)
    expect(refused.err).not.toContain("a-real-key")
  }
  expect(existsSync(dataDir)).toBe(false)
})

test("a proxy for the way out is not asked for what is on this machine", async () => {
  using directory = scratchDirectory()
  // Nobody listens there; the entries of their own stay.
  const proxy = { HTTP_PROXY: "http://127.0.0.1:9", no_proxy: "intern.example" }
  const dataDir = join(directory.path, "data")
  await using dev = await DevProcess.start([process.execPath, "src/main.ts"], root, dataDir, proxy)
  expect(textOf(await dev.tryIt())).toContain("Hello, Loket!")
})
