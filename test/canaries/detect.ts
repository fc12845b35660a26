/** A canary is planted into a process of its own, where its detector is run. */
import { join } from "node:path"
import { describe, expect, test } from "bun:test"
import { type Canary, detectors } from "./canary.ts"

const root = join(import.meta.dir, "../..")
/** Of a detector, which takes a few seconds where nothing else runs. */
const LIMIT_MS = 120_000

interface Detection {
  readonly passes: boolean
  readonly says: string
}

async function detect(detector: Canary["detector"], canary: Canary | undefined): Promise<Detection> {
  const [first, ...others] = detectors[detector]
  const preload = ["--preload", "./test/canaries/plant.ts"]
  const command =
    first === "test" ? ["test", ...preload, "--timeout", String(LIMIT_MS), ...others] : [...preload, first]
  const child = Bun.spawn([process.execPath, ...command], {
    cwd: root,
    env: {
      ...Bun.env,
      ...(detector === "books on a server"
        ? { LOKET_TEST_DATABASE: "postgres", LOKET_TEST_WORLDS: "160" }
        : { LOKET_TEST_DATABASE: "embedded", LOKET_TEST_WORLDS: "80" }),
      ...(canary && { LOKET_CANARY: canary.name }),
    },
    stdout: "pipe",
    stderr: "pipe",
  })
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { passes: code === 0, says: out + err }
}

/** Its detector passes without a canary, and fails by each, for the right reason. */
export function watch(canaries: readonly Canary[]): void {
  describe("without a canary", () => {
    test.concurrent.each([...new Set(canaries.map(({ detector }) => detector))])(
      "%s: nothing is noticed",
      async (detector) => {
        const { passes, says } = await detect(detector, undefined)
        expect(passes ? "" : says).toBe("")
      },
      LIMIT_MS,
    )
  })

  describe("it is noticed that", () => {
    test.concurrent.each(canaries.map((canary) => [canary.name, canary] as const))(
      "%s",
      async (_, canary) => {
        const { passes, says } = await detect(canary.detector, canary)
        expect(says).toMatch(canary.reason)
        expect(passes).toBe(false)
      },
      LIMIT_MS,
    )
  })
}
