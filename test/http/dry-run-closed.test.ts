/** Dry runs of what ends while they are asked: the process, the key, its account. */
import { expect, test } from "bun:test"
import { whole } from "../../actors/lease.ts"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { createApiKey } from "../../src/accounts/bearer-tokens.ts"
import { Failure } from "../../src/failure/failure.ts"
import { DryRuns } from "../../src/http/dry-runs.ts"
import { chatFormat } from "../../src/wire/chat/format.ts"

interface Ended {
  readonly draining?: AbortSignal
  readonly key?: object | undefined
  readonly account?: object
}

const open = { parentId: undefined, showsBalance: true }

/** What a dry run is told by a process, of a key and an account that are as they are said. */
async function told({ draining = new AbortController().signal, ...found }: Ended): Promise<[string, unknown]> {
  const active = { kind: "active", record: { keyId: "key_1", accountId: "acc_1" } }
  const { key, account = new Failure("auth.account_deleted") } = { key: open, ...found }
  const runs = new DryRuns({
    ports: {
      draining,
      clock: new VirtualClock(),
      actors: { keys: { has: () => true, count: () => active, view: () => ({}) } },
    },
    accounts: { account: async () => account },
    keys: { read: async () => key },
    share: () => whole,
  } as unknown as ConstructorParameters<typeof DryRuns>[0])
  const headers = { "x-api-key": createApiKey(), "X-Dry-Run": "true" }
  const request = new Request("http://gateway/v1/chat/completions", { method: "POST", headers })
  const answer = await runs.answer(chatFormat.client, request, { requestId: "r", connection: undefined, address: "" })
  if (!(answer instanceof Failure)) throw new Error(`answered ${answer.status}`)
  return [answer.code, answer.detail.retryAfterS]
}

test("a process that ends refuses a dry run as it refuses calls", async () => {
  expect(await told({ draining: AbortSignal.abort() })).toEqual(["gateway.capacity", 1])
})

test("a key or an account that is gone by then is none", async () => {
  expect(await told({ key: undefined })).toEqual(["auth.api_key_invalid", undefined])
  expect(await told({ account: new Failure("internal.panic") })).toEqual(["auth.account_deleted", undefined])
})
