import { expect, test } from "bun:test"
import { join } from "node:path"
import { DevProcess, scratchDirectory } from "./dev-process.ts"

const root = join(import.meta.dir, "..")
const start = (dataDir: string) => DevProcess.start([process.execPath, "src/main.ts"], root, dataDir)

/** The text that a chat stream adds up to. */
const textOf = (stream: string): string =>
  [...stream.matchAll(/^data: (\{.*)$/gm)]
    .map(([, json]) => JSON.parse(json ?? "{}") as { choices?: { delta?: { content?: string } }[] })
    .map(({ choices }) => choices?.[0]?.delta?.content ?? "")
    .join("")

test("from nothing to an answer: dev ends in a banner whose command works, and what it made is there again", async () => {
  using directory = scratchDirectory()
  const dataDir = join(directory.path, "data")

  const first = await start(dataDir)
  const answer = await first.tryIt()
  expect(answer.trimEnd()).toEndWith("data: [DONE]")
  expect(textOf(answer)).toContain("Hello, Loket!")
  expect(await first.stop()).toBe(0)

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
}, 120_000)
