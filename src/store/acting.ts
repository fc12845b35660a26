/**
 * Who acts on an account that is not their own: a member, or whoever has a management token of one of its keys. The account's
 * history is written by triggers (`0060_account_events.sql`), which know of whoever acts by `loket.member` or
 * `loket.management_token` of their transaction; so each statement that is run inside of `actingAs` says it first.
 */
import { AsyncLocalStorage } from "node:async_hooks"
import type { Sql } from "./sql.ts"

export type Acting =
  | {
      readonly accountId: string
      /** The account that the person signs in to. */
      readonly memberId: string
    }
  | { readonly tokenId: string }

const acting = new AsyncLocalStorage<Acting>()

/** Everything that is written meanwhile is done by this member, or with this token. Of other accounts a member is not said. */
export const actingAs = <T>(who: Acting, work: () => T): T => acting.run(who, work)

/** Runs one statement; that of a member or a token in a transaction of its own. */
export function byWhoActs<T>(sql: Sql, statement: (sql: Sql) => PromiseLike<T>): PromiseLike<T> {
  const who = acting.getStore()
  if (who === undefined) return statement(sql)
  const [setting, named] =
    "tokenId" in who ? ["loket.management_token", who.tokenId] : ["loket.member", `${who.accountId} ${who.memberId}`]
  return sql.begin(async (transaction) => {
    await transaction`select set_config(${setting}, ${named}, true)`
    return await statement(transaction as unknown as Sql)
  }) as Promise<T>
}
