/**
 * Calls that carry an `Idempotency-Key`, as rows of 24 hours in the table of the dashboard's changes, under the API key's id as
 * their scope. A row names its call, and is there before that is forwarded. What became of the call is not written here but
 * read from its usage record, so that key and charge cannot differ, whoever dies in between: a row whose call ended without an
 * answer, or can have none any more, is anybody's.
 */
import { type Micro, micro } from "../../actors/money/micro.ts"
import type { Database, Sql } from "./database.ts"

/** One call, under the key that it came with. */
export interface CallClaim {
  readonly keyId: string
  /** SHA-256 of API key and header. */
  readonly keyHash: Uint8Array
  readonly accountId: string
  /** Of endpoint and body. */
  readonly fingerprint: Uint8Array
  readonly requestId: string
  readonly processId: string
}

/** What a call came to that has the key. */
export interface Receipt {
  readonly requestId: string
  readonly status: string
  readonly charge: Micro
  readonly inputTokens: bigint
  readonly outputTokens: bigint
  readonly cacheReadTokens: bigint
  readonly cacheWriteTokens: bigint
}

export type CallClaimed =
  | { readonly kind: "claimed" }
  /** `processId`: whose it is, where that is known. */
  | { readonly kind: "in progress"; readonly processId?: string }
  /** The key belongs to another body. */
  | { readonly kind: "mismatch" }
  | { readonly kind: "finished"; readonly receipt: Receipt; readonly processId: string }

/** A row, and what there is of its call. */
export interface CallKeyRow {
  readonly fingerprint: Uint8Array
  readonly requestId: string
  readonly processId: string
  /** Undefined where no record says that its client was answered. */
  readonly receipt: Receipt | undefined
}

/** The statements of claiming a key, each idempotent and harmless however late it comes. */
export interface CallKeyStatements {
  /** Takes a key that is nobody's. */
  takeCallKey(claim: CallClaim): Promise<boolean>
  readCallKey(name: Pick<CallClaim, "keyId" | "keyHash">): Promise<CallKeyRow | undefined>
  /** Takes it from another call of the same process. */
  takeCallKeyOver(claim: CallClaim, from: string): Promise<boolean>
  freeCallKey(claim: Pick<CallClaim, "keyId" | "keyHash" | "requestId">): Promise<void>
}

/**
 * Claims a key for a call that is to be forwarded. The process asks only where it has no such call under way: a row of its own
 * that is not answered is of one that it has given up. That is said of the very call that was seen, so that a statement which
 * comes late takes the key from nobody who came after it.
 */
export async function claimCall(statements: CallKeyStatements, claim: CallClaim): Promise<CallClaimed> {
  if (await statements.takeCallKey(claim)) return { kind: "claimed" }
  const row = await statements.readCallKey(claim)
  // It may have been freed a moment ago: whoever asks again finds out.
  if (row === undefined) return { kind: "in progress" }
  const { fingerprint, requestId, processId, receipt } = row
  if (receipt === undefined && processId === claim.processId && (await statements.takeCallKeyOver(claim, requestId)))
    return { kind: "claimed" }
  if (!Buffer.from(fingerprint).equals(claim.fingerprint)) return { kind: "mismatch" }
  return receipt === undefined ? { kind: "in progress", processId } : { kind: "finished", receipt, processId }
}

/** A statement that was lost is sent again within this. */
const once = { deadlineMs: 5_000, retry: true } as const

/**
 * Whether a record says that its client was answered. One with an error code does not, whatever its status, nor a `billing_error`
 * that was written in the name of a process that is gone: no try was counted, and nobody was told that the answer is whole. Nor does a
 * charge that was taken back of an answer that does not stream: its client was told a failure, which its record does not have.
 */
const isAnswered = (
  sql: Sql,
) => sql`(u.error_code is null and (u.status in ('ok', 'usage_missing') or (u.status = 'billing_error'
  and u.attempts > 0 and (u.streamed or not exists (
    select from transfers t where t.idempotency_key = any (array['void:' || u.request_id, 'void-absorb:' || u.request_id]))))))`

export const callKeyStatements = (database: Database): CallKeyStatements => ({
  /**
   * Where there is no record, nothing can be charged any more once the call's process is closed, with nothing left of it to be
   * recorded, and its lease on the account is closed too: until then a statement that it has sent may still charge.
   */
  async takeCallKey({ keyId, keyHash, accountId, fingerprint, requestId, processId }) {
    const taken = await database.run(
      (sql) => sql`
        insert into idempotency_keys as k
          (scope, key_hash, account_id, fingerprint, claim, process_id, claimed_until, expires_at)
        values (${keyId}, ${keyHash}::bytea, ${accountId}, ${fingerprint}::bytea, ${requestId}, ${processId}, now(),
          now() + interval '24 hours')
        on conflict (scope, key_hash) do update set fingerprint = excluded.fingerprint, claim = excluded.claim,
          process_id = excluded.process_id, expires_at = excluded.expires_at
        where k.expires_at <= now() or k.claim = excluded.claim or coalesce(
          (select not ${isAnswered(sql)} from usage u where u.request_id = k.claim and u.part = 0),
          not exists (select from processes p where p.id = k.process_id and p.closed_at is null)
            and not exists (select from openings o where o.request_id = k.claim)
            and not exists (
              select from leases l
              where l.process_id = k.process_id and l.account_id = k.account_id and l.closed_at is null))
        returning 1`,
      once,
    )
    return taken.length > 0
  },

  async readCallKey({ keyId, keyHash }) {
    const [row] = await database.run(
      (sql) => sql<Row[]>`
        select k.fingerprint, k.claim, k.process_id, u.status, u.charge_micro, u.input_tokens, u.output_tokens,
          u.cache_read_tokens, u.cache_write_tokens
        from idempotency_keys k left join usage u on u.request_id = k.claim and u.part = 0 and ${isAnswered(sql)}
        where k.scope = ${keyId} and k.key_hash = ${keyHash}`,
      once,
    )
    return (
      row && { fingerprint: row.fingerprint, requestId: row.claim, processId: row.process_id, receipt: receiptOf(row) }
    )
  },

  async takeCallKeyOver({ keyId, keyHash, fingerprint, requestId, processId }, from) {
    const taken = await database.run(
      (sql) => sql`
        update idempotency_keys set fingerprint = ${fingerprint}, claim = ${requestId}, expires_at = now() + interval '24 hours'
        where scope = ${keyId} and key_hash = ${keyHash} and process_id = ${processId} and claim in (${from}, ${requestId})
        returning 1`,
      once,
    )
    return taken.length > 0
  },

  async freeCallKey({ keyId, keyHash, requestId }) {
    await database.run(
      (sql) =>
        sql`delete from idempotency_keys where scope = ${keyId} and key_hash = ${keyHash} and claim = ${requestId}`,
      once,
    )
  },
})

interface Row {
  readonly fingerprint: Uint8Array
  readonly claim: string
  readonly process_id: string
  /** Null without a record. */
  readonly status: string | null
  readonly charge_micro: bigint
  readonly input_tokens: bigint
  readonly output_tokens: bigint
  readonly cache_read_tokens: bigint
  readonly cache_write_tokens: bigint
}

const receiptOf = (row: Row): Receipt | undefined =>
  row.status === null
    ? undefined
    : {
        requestId: row.claim,
        status: row.status,
        charge: micro(row.charge_micro),
        inputTokens: row.input_tokens,
        outputTokens: row.output_tokens,
        cacheReadTokens: row.cache_read_tokens,
        cacheWriteTokens: row.cache_write_tokens,
      }
