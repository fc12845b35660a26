import { expect, test } from "bun:test"
import { join } from "node:path"
import manifest from "../package.json" with { type: "json" }
import { DevProcess, scratchDirectory } from "./dev-process.ts"

const root = join(import.meta.dir, "..")

test("the built binary, alone in an empty directory, serves dev with its own database inside", async () => {
  using directory = scratchDirectory()
  const binary = join(directory.path, "loket")
  const [program, ...args] = manifest.scripts.build.replace("dist/loket", binary).split(" ")
  expect(program).toBe("bun")
  const built = Bun.spawnSync([process.execPath, ...args], { cwd: root })
  if (built.exitCode !== 0) throw new Error(built.stderr.toString())

  using elsewhere = scratchDirectory()
  await using dev = await DevProcess.start([binary], elsewhere.path, join(elsewhere.path, "data"))
  expect((await dev.tryIt()).trimEnd()).toEndWith("data: [DONE]")
  // No sources and no node_modules are here: what it serves of the dashboard is inside of it.
  const page = await (await fetch(`${dev.banner.url}/dashboard`)).text()
  const script = /src="(\/dashboard\/assets\/[^"]+\.js)"/.exec(page)?.[1] ?? ""
  expect((await fetch(dev.banner.url + script)).headers.get("content-type")).toStartWith("text/javascript")
  expect(await dev.stop()).toBe(0)
}, 120_000)
