/** What docs/webhooks.md tells receivers to run, and to wait for. */
import { expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { join } from "node:path"
import { Webhook } from "standardwebhooks"
import { RETRY_DELAYS_MS } from "../../src/accounts/deliveries.ts"

type Verified = (secret: string, body: string, headers: Record<string, string>) => unknown

test("the document's snippet takes what is signed, and refuses what was changed, is old, or is signed by another", async () => {
  const page = await Bun.file("docs/webhooks.md").text()
  const snippet = /```ts\n([^]*?)```/.exec(page)?.[1] ?? ""
  // Beside the tests, where its library is found.
  const directory = mkdtempSync(join(import.meta.dir, "snippet-"))
  try {
    await Bun.write(join(directory, "snippet.ts"), snippet)
    const { verified } = (await import(join(directory, "snippet.ts"))) as { verified: Verified }
    const [secret, other] = [1, 2].map((byte) => `whsec_${Buffer.alloc(32, byte).toString("base64")}`)
    if (secret === undefined || other === undefined) throw new Error("two secrets")
    const body = /```json\n([^]*?)```/.exec(page)?.[1] ?? ""
    const headers = (at: Date) => ({
      "webhook-id": "msg_1",
      "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
      "webhook-signature": new Webhook(secret).sign("msg_1", at, body),
    })
    const now = headers(new Date())
    expect(verified(secret, body, now)).toMatchObject({ type: "budget.reached", data: { percent: 80 } })
    expect(() => verified(secret, body.replace("80", "50"), now)).toThrow()
    expect(() => verified(other, body, now)).toThrow()
    expect(() => verified(secret, body, headers(new Date(Date.now() - 6 * 60_000)))).toThrow()
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test("the gaps after which a delivery comes again are the document's", async () => {
  const page = await Bun.file("docs/webhooks.md").text()
  const [, gaps = ""] = /comes again after (.*?) hours\./.exec(page) ?? []
  const units: Readonly<Record<string, number>> = { s: 1_000, min: 60_000 }
  const told = [...gaps.matchAll(/(\d+)(?: (s|min)\b)?/g)].map(
    ([, count, unit = ""]) => Number(count) * (units[unit] ?? 3_600_000),
  )
  expect(told).toEqual([...RETRY_DELAYS_MS])
})
