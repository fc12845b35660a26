/** `dev` as a newcomer starts it: a child process on a directory, its banner read, and what the banner says done. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** An empty directory that is gone at the end. */
export function scratchDirectory(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), "loket-dev-"))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

/** What the suite has set of Bun's engine (package.json): children have it too, which is a fifth of what their start takes. */
export const engineSettings = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => name.startsWith("BUN_JSC_")),
)

/** All that a newcomer's process has of our own environment. */
export const bareEnvironment = { ...engineSettings, PATH: process.env["PATH"], HOME: process.env["HOME"] }

export interface Banner {
  readonly url: string
  readonly key: string
  readonly email: string
  readonly password: string
  /** The command that it tells to try. */
  readonly curl: string
}

export class DevProcess implements AsyncDisposable {
  readonly banner: Banner
  readonly #child: Bun.Subprocess<"ignore", "pipe", "pipe">

  private constructor(child: Bun.Subprocess<"ignore", "pipe", "pipe">, banner: Banner) {
    this.#child = child
    this.banner = banner
  }

  /** Starts `command dev` on a free port with the bare environment, and waits for its banner. */
  static async start(
    command: readonly string[],
    cwd: string,
    dataDir: string,
    further: Readonly<Record<string, string>> = {},
  ): Promise<DevProcess> {
    const child = Bun.spawn([...command, "dev"], {
      cwd,
      env: { ...bareEnvironment, PORT: "0", DATA_DIR: dataDir, ...further },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    })
    const decoder = new TextDecoder()
    let printed = ""
    const reader = child.stdout.getReader()
    for (;;) {
      const { done, value } = await reader.read()
      if (done) throw new Error(`it ended without a banner:\n${printed}\n${await new Response(child.stderr).text()}`)
      printed += decoder.decode(value, { stream: true })
      const banner = readBanner(printed)
      if (banner === undefined) continue
      // What it prints from now on is read and forgotten, or its pipe would fill up.
      void (async () => {
        while (!(await reader.read()).done);
      })()
      return new DevProcess(child, banner)
    }
  }

  /** Runs the banner's command as it is printed, in a shell, and returns what it prints. */
  async tryIt(): Promise<string> {
    using stand = scratchDirectory()
    const shell = Bun.spawn(["sh", "-c", this.banner.curl], {
      env: { ...process.env, PATH: `${process.env["PATH"]}:${standInCurl(stand.path)}` },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    })
    const [text, complaint, code] = await Promise.all([
      new Response(shell.stdout).text(),
      new Response(shell.stderr).text(),
      shell.exited,
    ])
    if (code !== 0) throw new Error(`the printed command failed: ${complaint}`)
    return text
  }

  /** Asks it to end, and returns its exit code. */
  async stop(): Promise<number> {
    this.#child.kill("SIGTERM")
    return await this.#child.exited
  }

  async [Symbol.asyncDispose]() {
    this.#child.kill("SIGKILL")
    await this.#child.exited
  }
}

function readBanner(printed: string): Banner | undefined {
  const part = (pattern: RegExp) => pattern.exec(printed)?.[1]
  const url = part(/running at (\S+)/)
  const key = part(/API key +(\S+)/)
  const email = part(/demo account +(\S+) \//)
  const password = part(/demo account +\S+ \/ (\S+)/)
  const curl = part(/^ *(curl [^]*?[^\\])\n/m)
  if (url === undefined || key === undefined || email === undefined) return undefined
  if (password === undefined || curl === undefined) return undefined
  return { url, key, email, password, curl }
}

/** Comes last in the path: for machines without curl, as much of it as the banner uses. */
function standInCurl(directory: string): string {
  const script = join(directory, "curl.ts")
  writeFileSync(
    script,
    `const args = process.argv.slice(2)
    const after = (flag: string) => args.flatMap((arg, index) => (arg === flag ? [args[index + 1] ?? ""] : []))
    const headers = after("-H").map((line) => line.split(": ") as [string, string])
    const url = args.find((arg) => arg.startsWith("http")) ?? ""
    const response = await fetch(url, { method: "POST", headers, body: after("-d")[0] })
    process.stdout.write(await response.text())`,
  )
  const curl = join(directory, "curl")
  writeFileSync(curl, `#!/bin/sh\nexec "${process.execPath}" "${script}" "$@"\n`)
  chmodSync(curl, 0o755)
  return directory
}
