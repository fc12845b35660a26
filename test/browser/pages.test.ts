/** The vendor's package in a page of another origin, in a real browser: what a key that lists the page lets it do. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type OpenAI from "openai"
import { type BrowserWorld, openBrowser } from "./harness.ts"

let world: BrowserWorld
let app: ReturnType<typeof Bun.serve>
let folder: string

beforeAll(async () => {
  world = await openBrowser()
  folder = mkdtempSync(join(tmpdir(), "loket-page-"))
  const entry = join(folder, "page.ts")
  await Bun.write(
    entry,
    `import OpenAI from ${JSON.stringify(Bun.resolveSync("openai", import.meta.dir))}\nglobalThis.OpenAI = OpenAI\n`,
  )
  const built = await Bun.build({ entrypoints: [entry], target: "browser" })
  const script = await built.outputs[0]?.text()
  app = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: ({ url }) =>
      url.endsWith("/page.js")
        ? new Response(script, { headers: { "Content-Type": "text/javascript" } })
        : new Response(
            '<!doctype html><title>A page</title><link rel="icon" href="data:,"><script type="module" src="/page.js"></script>',
            {
              headers: { "Content-Type": "text/html" },
            },
          ),
  })
})
afterAll(async () => {
  await app.stop(true)
  rmSync(folder, { recursive: true })
  await world[Symbol.asyncDispose]()
})

interface Asked {
  readonly baseURL: string
  readonly apiKey: string
  readonly model: string
}

/** Runs in the page. */
async function ask({ baseURL, apiKey, model }: Asked) {
  const { OpenAI: Client } = globalThis as unknown as { OpenAI: typeof OpenAI }
  const openai = new Client({ baseURL, apiKey, dangerouslyAllowBrowser: true, maxRetries: 0 })
  const messages = [{ role: "user" as const, content: "Hello" }]
  try {
    const { data, response } = await openai.chat.completions.create({ model, messages }).withResponse()
    let streamed = ""
    for await (const chunk of await openai.chat.completions.create({ model, messages, stream: true }))
      streamed += chunk.choices[0]?.delta.content ?? ""
    const wrong = await openai.chat.completions.create({ model: "nothing", messages }).catch((error: unknown) => error)
    return {
      text: data.choices[0]?.message.content,
      cost: response.headers.get("x-cost-rp"),
      id: response.headers.get("x-request-id"),
      streamed,
      wrong: (wrong as { headers?: Headers }).headers?.get("x-error-code"),
      models: (await openai.models.list()).data.length,
    }
  } catch (error) {
    return { failed: (error as Error).constructor.name, message: String(error) }
  }
}

test("calls from a page of another origin work with a key that lists it, streaming and errors too, and with no other", async () => {
  const { gateway } = world
  const person = await gateway.person(100_000)
  const model = await gateway.model({ format: "chat", script: "input=10&text=Selamat%20datang" })
  const origin = `http://localhost:${app.port}`
  const listed = await gateway.key(person, { origins: [origin] })
  const unlisted = await gateway.key(person)
  const baseURL = `${gateway.url}/v1`
  await using visit = await world.visit()
  const { page } = visit
  const loaded = async (host: string) => {
    await page.goto(`http://${host}:${app.port}/`)
    await page.waitForFunction(() => "OpenAI" in globalThis)
  }
  await loaded("localhost")
  expect(await page.evaluate(ask, { baseURL, apiKey: listed.key, model })).toEqual({
    text: "Selamat datang",
    cost: "0.02",
    id: expect.stringMatching(/^req_/),
    streamed: "Selamat datang",
    wrong: "model.unknown",
    models: expect.any(Number),
  })
  expect(visit.complaints).toEqual([])

  // The pre-flight is answered for the page, and what comes of this key is kept from it.
  const kept = await page.evaluate(ask, { baseURL, apiKey: unlisted.key, model })
  expect(kept).toMatchObject({ failed: "APIConnectionError" })
  expect(visit.complaints.join("\n")).toContain("has been blocked by CORS policy")
  visit.complaints.length = 0

  // The same page at another origin does not come past its pre-flight.
  const before = gateway.simulator.calls.length
  await loaded("127.0.0.1")
  const stopped = await page.evaluate(ask, { baseURL, apiKey: listed.key, model })
  expect(stopped).toMatchObject({ failed: "APIConnectionError" })
  expect(gateway.simulator.calls.length).toBe(before)
  expect(visit.complaints.join("\n")).toContain("has been blocked by CORS policy")
  visit.complaints.length = 0
})
