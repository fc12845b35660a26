import { expect, test } from "bun:test"
import { join } from "node:path"
import { bareEnvironment, DevProcess, scratchDirectory } from "./dev-process.ts"

const root = join(import.meta.dir, "../..")

async function command(dataDir: string, ...args: string[]) {
  const child = Bun.spawn([process.execPath, "src/main.ts", ...args], {
    cwd: root,
    env: { ...bareEnvironment, DATA_DIR: dataDir },
    stdout: "pipe",
    stderr: "pipe",
  })
  const [said, complaint, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { code, said: said.trim(), complaint: complaint.trim() }
}

test("an account becomes an operator's, with the embedded database in a running gateway's hands and without", async () => {
  using directory = scratchDirectory()
  const dataDir = join(directory.path, "data")
  const dev = await DevProcess.start([process.execPath, "src/main.ts"], root, dataDir)
  const { email, password, url } = dev.banner
  const role = async () => {
    const signIn = await fetch(`${url}/auth/sign-in`, { method: "POST", body: JSON.stringify({ email, password }) })
    const { account } = (await signIn.json()) as { account: { role: string; operator_role: string | null } }
    return [account.role, account.operator_role].join(" ").trim()
  }
  expect(await role()).toBe("customer")
  expect(await command(dataDir, "operator", email)).toMatchObject({ code: 0, complaint: "" })
  expect(await role()).toBe("operator owner")
  expect(await command(dataDir, "operator", "nobody@example.com")).toMatchObject({
    code: 1,
    complaint: expect.stringContaining(
      "there is no account with the address nobody@example.com; sign up with it first",
    ),
  })
  expect(await dev.stop()).toBe(0)

  expect((await command(dataDir, "operator", email)).said).toBe(`${email} is an operator of the role owner already`)
  const lowered = await command(dataDir, "operator", email, "--role", "support")
  expect(lowered.said).toContain(`${email} is an operator of the role support now`)
  const revoked = await command(dataDir, "operator", email, "--revoke")
  expect(revoked.said).toBe(`${email} is a customer now; its sessions have ended, so sign in again`)
  const contradictions = [
    [email, "--revoke", "--reset-second-factor"],
    [email, "--revoke", "--role", "support"],
    [email, "--role", "support", "--reset-second-factor"],
  ]
  for (const wrong of [[], ["--revoke"], [email, "more"], [email, "--role", "king"], ...contradictions])
    expect(await command(dataDir, "operator", ...wrong)).toMatchObject({
      code: 2,
      complaint: expect.stringContaining("See `loket operator --help`."),
    })
})
