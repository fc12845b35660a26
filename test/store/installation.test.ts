import { expect, test } from "bun:test"
import { openDatabase } from "../../src/store/database.ts"
import { installationSecret } from "../../src/store/processes.ts"
import { openTestDatabase } from "./harness.ts"

test("the secret of an installation is made once, whoever starts first, and is another one elsewhere", async () => {
  const [here, there] = [await openTestDatabase(), await openTestDatabase()]
  const processes = [here, here, here, there].map(({ url }) => openDatabase({ url, connections: 1 }))
  try {
    const [one, ...others] = await Promise.all(
      processes.map(async (database) => hex(await installationSecret(database, "end-users"))),
    )
    expect(one).toMatch(/^[0-9a-f]{64}$/)
    expect(others.slice(0, 2)).toEqual([one ?? "", one ?? ""])
    expect(others[2]).not.toBe(one)
    for (const database of processes.slice(0, 1))
      expect(hex(await installationSecret(database, "end-users"))).toBe(one ?? "")
  } finally {
    await Promise.all(processes.map((database) => database.close()))
    await Promise.all([here.close(), there.close()])
  }
})

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex")
