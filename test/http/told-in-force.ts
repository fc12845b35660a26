/**
 * Changes of keys through the API, each followed at once by a call: whoever was told of a change must not see it
 * contradicted (decisions §13.8). The same changes are tried on one process and on one of two.
 */
import { expect } from "bun:test"
import { createSessionToken, hashSessionToken } from "../../src/accounts/bearer-tokens.ts"
import type { Init, Person, TestGateway } from "../gateway/harness.ts"

/** So many times in a row, and a quarter as often where a password is hashed each time; `LOKET_TOLD_ROUNDS` plays more. */
const ROUNDS = Number(process.env["LOKET_TOLD_ROUNDS"] ?? 60)

/** For a gateway on which these are tried. */
export const env = { MAX_KEYS_PER_ACCOUNT: "1000" }

const PAGE = "https://told.example"
const OTHER_PAGE = "https://other.example"

export interface Told {
  readonly what: string
  readonly refusal: string
  readonly key: (world: ToldWorld) => Promise<Key>
  /** A call that the change refuses. */
  readonly call: (world: ToldWorld, key: string) => Promise<string | number>
  /** Resolves when the API has answered. */
  readonly change: (world: ToldWorld, key: Key) => Promise<void>
  readonly rounds?: number
  /** For the next round. */
  readonly undo?: (world: ToldWorld) => Promise<void>
}

interface Key {
  readonly id: string
  readonly key: string
}

export interface ToldWorld {
  readonly gateway: TestGateway
  readonly person: Person
  readonly operator: Person
  /** One for all rounds of what changes the account. */
  readonly key: Key
}

export async function toldWorld(gateway: TestGateway): Promise<ToldWorld> {
  const [operator, person] = [await gateway.person(), await gateway.person(100_000)]
  await gateway.sql`update accounts set role = 'operator' where id = ${operator.accountId}`
  return { gateway, operator, person, key: await gateway.key(person) }
}

const told = async (response: Response) => {
  await response.arrayBuffer()
  return response.headers.get("x-error-code") ?? response.status
}

/** A call that costs nothing, and is counted. */
export const look = async ({ gateway }: ToldWorld, key: string) =>
  await told(await fetch(`${gateway.url}/v1/models`, { headers: { "x-api-key": key } }))

const spend = async ({ gateway }: ToldWorld, key: string) => {
  const body = { model: "plain", max_tokens: 16, messages: [{ role: "user", content: "Hello" }] }
  return await told(await gateway.post("/v1/chat/completions", key, body))
}

async function made(response: Promise<Response>): Promise<void> {
  const { ok, status } = await response
  if (!ok) throw new Error(`the change was answered ${status}`)
}

const body = (method: string, value: unknown): Init => ({ method, body: JSON.stringify(value) })

export async function freeze({ gateway, operator, person }: ToldWorld, how: "freeze" | "unfreeze"): Promise<Response> {
  return await gateway.dashboard(
    operator,
    `/operator/accounts/${person.accountId}/${how}`,
    body("POST", { reason: "a test" }),
  )
}

/** A session without the password's cost. */
async function session({ gateway, person: { accountId } }: ToldWorld): Promise<Person> {
  const { token, hash } = createSessionToken()
  expect(hashSessionToken(token)).toEqual(hash)
  await gateway.sql`insert into sessions (token_hash, account_id, expires_at) values (${hash}, ${accountId}, now() + interval '1 hour')`
  return { accountId, token }
}

const limited =
  (limits: Readonly<Record<string, unknown>> = {}) =>
  ({ gateway, person }: ToldWorld) =>
    gateway.key(person, limits)

const patched =
  (change: Readonly<Record<string, unknown>>) =>
  ({ gateway, person }: ToldWorld, { id }: Key) =>
    made(gateway.dashboard(person, `/keys/${id}`, body("PATCH", change)))

export const changes: readonly Told[] = [
  {
    what: "a key that was revoked",
    refusal: "auth.api_key_revoked",
    key: limited(),
    call: look,
    change: ({ gateway, person }, { id }) => made(gateway.dashboard(person, `/keys/${id}/revoke`, { method: "POST" })),
  },
  {
    what: "a secret that was replaced",
    refusal: "auth.api_key_revoked",
    key: limited(),
    call: look,
    change: ({ gateway, person }, { id }) =>
      made(gateway.dashboard(person, `/keys/${id}/rotate`, body("POST", { overlap_s: 0 }))),
  },
  {
    what: "a key whose time is over",
    refusal: "auth.api_key_expired",
    key: limited({ expires_at: "2099-01-01T00:00:00Z" }),
    call: look,
    change: patched({ expires_at: "2026-01-01T00:00:00Z" }),
  },
  {
    what: "a key that was bound to networks",
    refusal: "auth.key_not_allowed",
    key: limited({ networks: ["127.0.0.0/8", "::1"] }),
    call: look,
    change: patched({ networks: ["203.0.113.0/24"] }),
  },
  {
    what: "a page that was taken off its key's list",
    refusal: "auth.key_not_allowed",
    key: limited({ origins: [PAGE, OTHER_PAGE] }),
    call: async ({ gateway }, key) =>
      await told(await fetch(`${gateway.url}/v1/models`, { headers: { "x-api-key": key, Origin: PAGE } })),
    change: patched({ origins: [OTHER_PAGE] }),
  },
  {
    what: "a key that was bound to a rate",
    refusal: "auth.key_not_allowed",
    key: limited(),
    call: spend,
    change: patched({ max_rate_micro: 0 }),
  },
  {
    what: "a key with a lowered limit of requests",
    refusal: "rate_limit.rpm_exceeded",
    key: limited({ requests_per_minute: 1_000 }),
    call: look,
    change: patched({ requests_per_minute: 1 }),
  },
  {
    what: "a key with a lowered limit of tokens",
    refusal: "rate_limit.tpm_exceeded",
    key: limited({ tokens_per_minute: 100_000 }),
    call: spend,
    change: patched({ tokens_per_minute: 1 }),
  },
  {
    what: "a key with a lowered spending limit",
    refusal: "quota.key_limit_exceeded",
    key: limited({ spending_limit_micro: 1_000_000_000, spending_period: "daily" }),
    // The call before the change leaves the whole budget in its process's purse.
    call: spend,
    change: patched({ spending_limit_micro: 1 }),
  },
  {
    what: "a frozen account's key",
    refusal: "auth.account_frozen",
    key: async ({ key }) => key,
    call: look,
    change: (world) => made(freeze(world, "freeze")),
    undo: (world) => made(freeze(world, "unfreeze")),
  },
  {
    what: "a deleted account's key",
    refusal: "auth.account_deleted",
    rounds: ROUNDS / 4,
    key: async ({ key }) => key,
    call: look,
    change: async (world) => {
      const deletion = body("DELETE", { password: "correct horse battery" })
      await made(world.gateway.dashboard(await session(world), "/account", deletion))
    },
    undo: async ({ gateway, person: { accountId } }) => {
      await gateway.sql`update accounts set deleted_at = null where id = ${accountId}`
      // Its keys are read again.
      await gateway.server.accounts.unfreeze(accountId)
    },
  },
]

/** Round after round: a call that passes, the change, and at once a call that does not. */
export async function playRounds(world: ToldWorld, told: Told): Promise<void> {
  const { key: make, change, call, undo, refusal } = told
  for (let round = 0; round < (told.rounds ?? ROUNDS); round++) {
    const key = await make(world)
    expect(await call(world, key.key)).toBe(200)
    await change(world, key)
    expect([round, await call(world, key.key)]).toEqual([round, refusal])
    await undo?.(world)
  }
}
