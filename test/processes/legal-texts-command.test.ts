/** The example texts as files. */
import { expect, test } from "bun:test"
import { mkdtemp, readdir, rm, stat } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { readLegalTexts } from "../../src/legal/texts.ts"

const main = join(import.meta.dir, "../../src/main.ts")
async function run(...parameters: readonly string[]) {
  const child = Bun.spawn(["bun", main, "legal-texts", ...parameters], { stdout: "pipe", stderr: "pipe" })
  const [code, out, problems] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  return { code, out, problems }
}

test("all six texts are written, as the gateway reads them, and what is there is left alone", async () => {
  const place = await mkdtemp(join(tmpdir(), "loket-legal-"))
  try {
    const directory = join(place, "deep", "legal")
    const first = await run(directory)
    expect([first.code, first.out]).toEqual([0, expect.stringContaining(`LEGAL_TEXTS_DIR=${directory}`)])
    expect(await readdir(directory)).toHaveLength(6)
    expect(await readLegalTexts(directory)).toEqual(await readLegalTexts(undefined))
    // Whoever writes them is root, and the gateway is not.
    for (const path of [join(place, "deep"), directory]) expect((await stat(path)).mode & 0o777).toBe(0o755)
    expect((await stat(join(directory, "terms.en.md"))).mode & 0o777).toBe(0o644)
    await Bun.write(join(directory, "terms.en.md"), "our own")
    await rm(join(directory, "terms.id.md"))
    const second = await run(directory)
    expect([second.code, second.out]).toEqual([0, expect.stringContaining("terms.en.md is there already")])
    expect(await Bun.file(join(directory, "terms.en.md")).text()).toBe("our own")
    expect(await Bun.file(join(directory, "terms.id.md")).exists()).toBe(true)
    // As on a full disk: half a file would be taken for the operator's own the next time.
    const full = join(place, "full")
    const child = Bun.spawn(["sh", "-c", `trap "" XFSZ; ulimit -f 1; exec bun ${main} legal-texts ${full}`], {
      stdout: "ignore",
      stderr: "pipe",
    })
    expect(await new Response(child.stderr).text()).toStartWith("the texts cannot be written: ")
    expect([await child.exited, await readdir(full)]).toEqual([1, []])
    const nowhere = await run(join(directory, "terms.en.md", "below"))
    expect([nowhere.code, nowhere.problems]).toEqual([1, expect.stringContaining("the texts cannot be written")])
  } finally {
    await rm(place, { recursive: true })
  }
})
