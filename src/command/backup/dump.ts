/** PostgreSQL's own `pg_dump` and `pg_restore`, as they are installed. */
import { CommandFailure } from "../command.ts"

export const dumpTo = (url: string, file: string): Promise<void> =>
  run("pg_dump", ["--format=custom", "--no-owner", "--no-privileges", `--file=${file}`], url)

/** All of it or nothing. */
export const restoreFrom = (file: string, url: string): Promise<void> =>
  run("pg_restore", ["--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error", file], url)

async function run(program: string, args: readonly string[], url: string): Promise<void> {
  const path = Bun.which(program)
  if (path === null)
    throw new CommandFailure(
      `${program} is not installed: install PostgreSQL's client (Debian: postgresql-client), not older than the server`,
    )
  const { address, password } = withoutPassword(url)
  const child = Bun.spawn([path, ...args, `--dbname=${address}`], {
    // A command's words can be read by everybody on the machine.
    env: { ...process.env, ...(password !== undefined && { PGPASSWORD: password }) },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  })
  const [complaint, code] = await Promise.all([new Response(child.stderr).text(), child.exited])
  if (code !== 0) throw new CommandFailure(`${program} failed:\n${complaint.trim()}`)
}

function withoutPassword(url: string): { readonly address: string; readonly password: string | undefined } {
  const [, before = "", user = "", password, rest = ""] =
    /^(postgres(?:ql)?:\/\/)([^:@/?#]*)(?::([^@/?#]*))?(@.*)?$/.exec(url) ?? []
  if (before === "" || rest === "") return { address: url, password: undefined }
  return {
    address: `${before}${user}${rest}`,
    password: password === undefined ? undefined : decodeURIComponent(password),
  }
}
