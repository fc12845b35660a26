/** The command line as it is read: what help shows, and what a wrong word is answered with. */
import { expect, test } from "bun:test"
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { CommandUnknownOpts } from "@commander-js/extra-typings"
import { program } from "../../src/command/program.ts"
import { loket as loketHere } from "../command/loket.ts"

const root = join(import.meta.dir, "../..")
/** An ordinary terminal has so many lines. */
const SCREEN = 48

async function loket(...args: string[]) {
  const child = Bun.spawn([process.execPath, join(root, "src/main.ts"), ...args], {
    cwd: "/",
    env: { PATH: process.env["PATH"], PORT: "0" },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  })
  const [said, complaint] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  return { code: await child.exited, said: said.trim(), complaint: complaint.trim() }
}

const paths = (command: CommandUnknownOpts, path: readonly string[] = []): (readonly string[])[] =>
  command.commands.flatMap((each) => {
    const here = [...path, each.name()]
    return each.commands.length > 0 ? paths(each, here) : [here]
  })

function commandAt(path: readonly string[]): CommandUnknownOpts | undefined {
  return path.reduce<CommandUnknownOpts | undefined>(
    (at, name) => at?.commands.find((each) => each.name() === name),
    program(),
  )
}

test("help is one screen, and every command says what it does in one line", async () => {
  const { code, said, complaint } = await loket("--help")
  expect({ code, complaint }).toEqual({ code: 0, complaint: "" })
  const lines = said.split("\n")
  expect(lines.length).toBeLessThanOrEqual(SCREEN)
  expect(lines.filter((line) => line.length > 100)).toEqual([])
  for (const each of program().commands) {
    expect(lines.filter((line) => line.trimStart().startsWith(`${each.name()} `)).length).toBe(1)
    expect(each.summary()).toMatch(/^[A-Z].{10,85}[^.]$/)
  }
})

test("every command has examples, and every example is a command with options that it takes", () => {
  const wrong: string[] = []
  for (const path of paths(program())) {
    let help = ""
    const command = commandAt(path)
    command?.configureOutput({ writeOut: (text) => void (help += text) }).outputHelp()
    const examples = [...help.slice(help.indexOf("\nExamples:")).matchAll(/^ {2}loket (.*?)(?: {3,}|$)/gm)]
    if (examples.length === 0) wrong.push(`${path.join(" ")} has no example`)
    for (const [, line = ""] of examples) {
      const words = line.replaceAll(/"[^"]*"/g, "text").split(" ")
      const named = path.every((name, index) => words[index] === name)
      const options = words.filter((word) => word.startsWith("--"))
      const known = options.every((option) => command?.options.some(({ long }) => long === option))
      const least = command?.registeredArguments.filter(({ required }) => required).length ?? 0
      if (!named || !known || words.length - path.length < least) wrong.push(line)
    }
  }
  expect(wrong).toEqual([])
})

test("what is not understood exits with 2, names what was likely meant, and where help is", async () => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ["sed", /Did you mean seed\?[^]*See `loket --help`/],
    ["seed --overwrit", /Did you mean --overwrite\?[^]*See `loket seed --help`/],
    ["operator", /missing required argument 'email'[^]*See `loket operator --help`/],
    ["operator a@b.id c@d.id", /too many arguments[^]*See `loket operator --help`/],
    ["simulator --port 70000", /must be a number from 0 to 65535[^]*See `loket simulator --help`/],
    ["", /^Usage: loket/],
    // As of a shell's variable that is not set: not the directory that one stands in.
    ["archive", /^say one of --before <month> and --check$/],
    ["archive --check --before 2026-08", /^say one of --before <month> and --check$/],
    ["move --to=", /'--to <place>' argument '' is invalid. It must not be empty/],
  ]
  for (const [line, complaint] of cases) {
    const answer = await loket(...line.split(" ").filter(Boolean))
    expect(answer).toMatchObject({ code: 2, said: "", complaint: expect.stringMatching(complaint) })
  }
})

test("help is a word too", async () => {
  const flag = await loket("account", "adjust", "--help")
  expect(flag).toMatchObject({ code: 0, said: expect.stringContaining("Usage: loket account adjust") })
  expect(await loket("help", "account", "adjust")).toEqual(flag)
  expect((await loket("help")).said).toStartWith("Usage: loket <command>")
  const unknown = await loket("help", "sed")
  expect(unknown).toMatchObject({ code: 2, said: "", complaint: expect.stringContaining("Did you mean seed?") })
})

test("what fails exits with 1 and one sentence, without a stack", async () => {
  const { code, said, complaint } = await loket("start")
  expect({ code, said }).toEqual({ code: 1, said: "" })
  expect(complaint).toMatch(/^no provider is configured: set at least one of \w+/)
  expect(complaint).not.toContain("    at ")
})

test("a file where DATA_DIR is to be is told in one sentence", async () => {
  const scratch = mkdtempSync(join(tmpdir(), "loket-file-"))
  const file = join(scratch, "file")
  writeFileSync(file, "")
  try {
    for (const line of ["migrate", "seed", "operator a@b.id", "archive --check", "account list", `backup ${scratch}/b`])
      for (const DATA_DIR of [file, join(file, "below")]) {
        const { code, complaint } = await loketHere({ DATA_DIR }, ...line.split(" "))
        expect(code).toBe(1)
        expect(complaint).toMatch(
          /^the directory \S+ cannot be made: (?:a file of that name is there|what stands above it is a file)$|^\S+ cannot be looked into \(ENOTDIR\): run this as .*$/,
        )
      }
  } finally {
    rmSync(scratch, { recursive: true })
  }
})

test("every command is on the page about commands, and no other", async () => {
  const page = await Bun.file(join(root, "docs/operating/commands.md")).text()
  const documented = [...page.matchAll(/^\| `loket ([^`]+)`/gm)].map(([, line = ""]) => line)
  const names = documented.map((line) => /^(?:[a-z][a-z-]* ?)+/.exec(line)?.[0].trim() ?? "")
  expect(names.sort()).toEqual(
    paths(program())
      .map((path) => path.join(" "))
      .sort(),
  )
})

/** What a command complains of whose output goes there, and its exit code. */
async function printedTo(where: string): Promise<string> {
  const command = ["bash", "-c", `{ "$0" "$1" --help; echo "ended with $?" >&2; } ${where}`]
  const child = Bun.spawn([...command, process.execPath, join(root, "src/main.ts")], {
    env: { PATH: process.env["PATH"] },
    stdout: "ignore",
    stderr: "pipe",
  })
  return await new Response(child.stderr).text()
}

test.skipIf(!existsSync("/dev/full"))(
  "what cannot be printed ends with 1, and says why but to a reader that has gone",
  async () => {
    expect(await printedTo("> /dev/full")).toMatch(
      /^standard output could not be written \(ENOSPC: [^\n]*\): what the command changed stands\nended with 1\n$/,
    )
    expect(await printedTo("> >(exec true)")).toBe("ended with 1\n")
    expect(await printedTo("> /dev/null")).toBe("ended with 0\n")
  },
)
