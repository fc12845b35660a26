/**
 * Changes that carry an `Idempotency-Key`, as rows of 24 hours. The row is there before the change is made. A statement that
 * makes something anew each time it is sent takes the row too (`taking`), so that both are committed or neither is: then it
 * has its effect once, whoever dies in between and however many carry it out. All other changes come to the same when they
 * are made twice, and need only be kept apart.
 *
 * The header that names a request which may be sent again is here too: it is the same of calls and of the dashboard's changes.
 */
import { type Failure, invalid } from "../failure/failure.ts"
import type { Database, Sql } from "./database.ts"

export const IDEMPOTENCY_KEY = "Idempotency-Key"
export const KEY_DESCRIPTION = "1 to 255 visible ASCII characters"
const KEY = /^[\x21-\x7e]{1,255}$/

/** Of every answer that was given before. */
export const REPLAYED = { "Idempotency-Replayed": "true" } as const

/** Undefined without the header. One that comes twice is joined with a space, which is none of its characters. */
export function idempotencyKeyOf(headers: Headers): string | undefined | Failure {
  const key = headers.get(IDEMPOTENCY_KEY)
  if (key === null) return undefined
  return KEY.test(key) ? key : invalid(`'${IDEMPOTENCY_KEY}' must be ${KEY_DESCRIPTION}.`)
}

/** Names one change. */
export interface ChangeName {
  /** Within what the key is unique: an account's id. */
  readonly scope: string
  /** SHA-256 of scope and key. */
  readonly keyHash: Uint8Array
}

export interface Claim extends ChangeName {
  readonly accountId: string
  /** Of method, path and body. */
  readonly fingerprint: Uint8Array
  /** Of this attempt alone. */
  readonly claim: string
  readonly processId: string
}

/** What stands in the way of a claim. */
export type Found =
  | { readonly kind: "in progress" }
  /** The key belongs to another request. */
  | { readonly kind: "mismatch" }
  | { readonly kind: "too many" }
  | { readonly kind: "finished"; readonly at: Date; readonly made: string | undefined }

export interface IdempotencyKeyStore {
  /** `"claimed"`: it is the caller's to carry out. */
  claim(claim: Claim): Promise<{ readonly kind: "claimed" } | Found>
  find(change: ChangeName & Pick<Claim, "fingerprint">): Promise<Found>
  /** It was carried out; `made` is the id of what came of it. */
  finish(claim: Claim, made: string | undefined): Promise<void>
  /** It was refused and changed nothing: the key is free for another request. */
  free(claim: Claim): Promise<void>
  /** Whether it had its effect is not known: it may be carried out again at once. */
  giveUp(claim: Claim): Promise<void>
  /** How many rows were removed, at most 10,000. */
  removeExpired(): Promise<number>
}

/** Of one account at a time. */
const MAX_KEPT = 1_000
/** Longer than any request takes. Whoever is later than this is carried out twice, which is harmless. */
const CLAIM_S = 60
const REMOVED_AT_ONCE = 10_000

const once = { deadlineMs: 5_000, retry: true } as const

const named = (sql: Sql, { scope, keyHash }: ChangeName) => sql`scope = ${scope} and key_hash = ${keyHash}`

export const idempotencyKeyStore = (database: Database): IdempotencyKeyStore => {
  const find: IdempotencyKeyStore["find"] = async (change) => {
    const [kept] = await database.run(
      (sql) => sql<{ same: boolean; done_at: Date | null; made: string | null }[]>`
        select fingerprint = ${change.fingerprint}::bytea as same, done_at, made from idempotency_keys
        where ${named(sql, change)}`,
      once,
    )
    // It may have been freed a moment ago: whoever asks again finds out.
    if (kept === undefined) return { kind: "in progress" }
    if (!kept.same) return { kind: "mismatch" }
    if (kept.done_at === null) return { kind: "in progress" }
    return { kind: "finished", at: kept.done_at, made: kept.made ?? undefined }
  }
  return {
    find,

    async claim(request) {
      const { scope, keyHash, accountId, fingerprint, claim, processId } = request
      const [row] = await database.run(
        (sql) => sql<{ room: boolean; claimed: boolean }[]>`
          with room as materialized (
            select exists (select from idempotency_keys where ${named(sql, request)}) or (
              select count(*) from (select from idempotency_keys where scope = ${scope} limit ${MAX_KEPT}) kept
            ) < ${MAX_KEPT} as is_there
          ), claimed as (
            insert into idempotency_keys as k
              (scope, key_hash, account_id, fingerprint, claim, process_id, claimed_until, expires_at)
            select ${scope}, ${keyHash}::bytea, ${accountId}, ${fingerprint}::bytea, ${claim}, ${processId},
              now() + make_interval(secs => ${CLAIM_S}), now() + interval '24 hours' from room where is_there
            on conflict (scope, key_hash) do update set fingerprint = excluded.fingerprint, claim = excluded.claim,
              process_id = excluded.process_id, claimed_until = excluded.claimed_until,
              expires_at = case when k.expires_at <= now() then excluded.expires_at else k.expires_at end,
              done_at = null, made = null
            where k.expires_at <= now() or k.claim = excluded.claim or (
              k.fingerprint = excluded.fingerprint and k.done_at is null and (
                k.claimed_until <= now()
                or exists (select from processes p where p.id = k.process_id and p.closed_at is not null)
              )
            )
            returning 1
          )
          select is_there as room, exists (select from claimed) as claimed from room`,
        once,
      )
      if (row?.claimed === true) return { kind: "claimed" }
      return row?.room === false ? { kind: "too many" } : await find(request)
    },

    async finish(claim, made) {
      await database.run(
        (sql) => sql`
          update idempotency_keys set done_at = now(), made = ${made?.slice(0, 100) ?? null}
          where ${named(sql, claim)} and claim = ${claim.claim} and done_at is null`,
        once,
      )
    },

    async free(claim) {
      await database.run(
        (sql) => sql`
          delete from idempotency_keys where ${named(sql, claim)} and claim = ${claim.claim} and done_at is null`,
        once,
      )
    },

    async giveUp(claim) {
      await database.run(
        (sql) => sql`
          update idempotency_keys set claimed_until = now() where ${named(sql, claim)} and claim = ${claim.claim}`,
        once,
      )
    },

    async removeExpired() {
      const rows = await database.run(
        (sql) => sql`
          with gone as materialized (
            select scope, key_hash from idempotency_keys where expires_at <= now()
            order by expires_at limit ${REMOVED_AT_ONCE} for update skip locked
          )
          delete from idempotency_keys where (scope, key_hash) in (select * from gone) returning 1`,
        once,
      )
      return rows.length
    },
  }
}

/**
 * A part of a `with` that takes the change's row for the statement, once: `taken` has a row for whom it was free. Without a
 * change it has one for everybody. `when` says whether the statement has an effect at all, and `made` what it makes.
 */
export const taking = (sql: Sql, change: ChangeName | undefined, made: string, when: ReturnType<Sql>) =>
  change === undefined
    ? sql`taken as (select 1 where ${when})`
    : sql`taken as (
        update idempotency_keys set done_at = now(), made = ${made}
        where scope = ${change.scope} and key_hash = ${change.keyHash} and done_at is null and ${when}
        returning 1
      )`
