import { expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import manifest from "../../package.json" with { type: "json" }
import { pagesOf } from "../pdf/files.ts"
import { DevProcess, scratchDirectory } from "./dev-process.ts"
import { NotifySocket } from "./notify-socket.ts"

const root = join(import.meta.dir, "../..")

const threePages = {
  type: "document",
  source: { type: "base64", media_type: "application/pdf", data: pagesOf(["a", "b", "c"]).toString("base64") },
}

async function messagesModel(url: string): Promise<string> {
  const { data } = (await (await fetch(`${url}/models`)).json()) as { data: { model: string }[] }
  const found = data.find(({ model }) => model.startsWith("claude"))
  if (found === undefined) throw new Error("no model of the messages format")
  return found.model
}

test("the built binary, alone in a directory of strangers' settings, serves dev with its own database inside", async () => {
  using directory = scratchDirectory()
  const binary = join(directory.path, "loket")
  const [program, ...args] = manifest.scripts.build.replace("dist/loket", binary).split(" ")
  expect(program).toBe("bun")
  const built = Bun.spawnSync([process.execPath, ...args], { cwd: root })
  if (built.exitCode !== 0) throw new Error(built.stderr.toString())

  using elsewhere = scratchDirectory()
  // Whoever may write there must not run programs as whoever runs it, nor say where keys are sent.
  writeFileSync(join(elsewhere.path, "bunfig.toml"), 'preload = ["./stranger.ts"]\n')
  writeFileSync(join(elsewhere.path, "stranger.ts"), 'console.error("a stranger\'s program")\n')
  writeFileSync(join(elsewhere.path, ".env"), "LOG_LEVEL=a-stranger-s\n")
  using systemd = new NotifySocket()
  const watched = { NOTIFY_SOCKET: systemd.address, WATCHDOG_USEC: "300000" }
  await using dev = await DevProcess.start([binary], elsewhere.path, join(elsewhere.path, "data"), watched)
  expect((await dev.tryIt()).trimEnd()).toEndWith("data: [DONE]")
  expect(new Set(systemd.heard())).toEqual(new Set(["READY=1", "WATCHDOG=1"]))
  // Large bodies are worked on by a worker that is inside too.
  const story = { model: "claude-haiku-4-5", messages: [{ role: "user", content: "x ".repeat(150_000) }] }
  const headers = { Authorization: `Bearer ${dev.banner.key}` }
  const body = JSON.stringify(story)
  const large = await fetch(`${dev.banner.url}/v1/chat/completions`, { method: "POST", headers, body })
  expect(await large.json()).toHaveProperty("choices")
  // No sources and no node_modules are here: what it serves of the dashboard is inside of it.
  const page = await (await fetch(`${dev.banner.url}/dashboard`)).text()
  const script = /src="(\/dashboard\/assets\/[^"]+\.js)"/.exec(page)?.[1] ?? ""
  expect((await fetch(dev.banner.url + script)).headers.get("content-type")).toStartWith("text/javascript")
  const counted = await fetch(`${dev.banner.url}/v1/messages/count_tokens`, {
    method: "POST",
    headers: { "x-api-key": dev.banner.key },
    body: JSON.stringify({
      model: await messagesModel(dev.banner.url),
      messages: [{ role: "user", content: [threePages] }],
    }),
  })
  // By its size it would be one page.
  expect(((await counted.json()) as { input_tokens: number }).input_tokens).toBeGreaterThan(9_000)
  // Commands reach its database, and need nothing but the binary either.
  const run = (...args: string[]) => {
    const env = { PATH: process.env["PATH"], DATA_DIR: join(elsewhere.path, "data") }
    const { exitCode, stdout, stderr } = Bun.spawnSync([binary, ...args], { cwd: elsewhere.path, env })
    return { exitCode, said: stdout.toString(), complaint: stderr.toString() }
  }
  const listed = { exitCode: 0, said: expect.stringContaining(dev.banner.email), complaint: "" }
  expect(run("account", "list")).toMatchObject(listed)
  expect(run("backup", "monday")).toMatchObject({ exitCode: 0, complaint: "" })
  expect(run("restore", "monday", "--check").said).toStartWith("whole: ")
  expect(run("doctor").said).toContain("ok     the embedded database, through its gateway")
  expect(run("doktor")).toMatchObject({ exitCode: 2, complaint: expect.stringContaining("Did you mean doctor?") })
  expect(await dev.stop()).toBe(0)
})
