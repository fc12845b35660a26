/** A command as a person runs it, but in this process: what it printed, what it complained of, and its exit code. */
import { format } from "node:util"
import { runProgram } from "../../src/command/program.ts"

export interface Ran {
  readonly code: number
  readonly said: string
  readonly complaint: string
}

/** With nothing of our own environment but the path. */
export async function loket(env: Readonly<Record<string, string>>, ...args: string[]): Promise<Ran> {
  const before = { log: console.log, error: console.error, env: { ...process.env }, exitCode: process.exitCode }
  const said: string[] = []
  const complaint: string[] = []
  console.log = (...what: unknown[]) => void said.push(format(...what))
  console.error = (...what: unknown[]) => void complaint.push(format(...what))
  replaceEnvironment({ PATH: before.env["PATH"], ...env })
  process.exitCode = 0
  try {
    const code = await runProgram(args)
    return { code, said: said.join("\n").trim(), complaint: complaint.join("\n").trim() }
  } finally {
    console.log = before.log
    console.error = before.error
    replaceEnvironment(before.env)
    process.exitCode = before.exitCode ?? 0
  }
}

/** In place, because the runtime reads some of it itself. */
function replaceEnvironment(env: Readonly<Record<string, string | undefined>>): void {
  for (const name of Object.keys(process.env)) if (env[name] === undefined) delete process.env[name]
  for (const [name, value] of Object.entries(env)) if (value !== undefined) process.env[name] = value
}
