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
  expect(await dev.stop()).toBe(0)
}, 120_000)
