/** `/account`: the signed-in person's own account (decisions §10). */
import { type Static, type TSchema, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { micro, microToJson } from "../../../actors/money/micro.ts"
import type { Accounts } from "../../accounts/accounts.ts"
import { Email, SomePassword, TimeZone } from "../../accounts/fields.ts"
import { Failure } from "../../failure/failure.ts"
import { present } from "../../language/json.ts"
import type { Account, AccountChange } from "../../store/accounts.ts"
import { whereabouts } from "./address.ts"
import { bodyReader } from "./body.ts"
import { takes } from "./contract.ts"
import { type Authenticate, sessionCookie } from "./session.ts"

export interface AccountDeps {
  readonly accounts: Accounts
  readonly authenticate: Authenticate
}

/** Null leaves a time zone and a language as they are, and takes the rest away. */
const orNull = <T extends TSchema>(schema: T) =>
  Type.Optional(Type.Union([schema, Type.Null()], { description: `${schema.description}, or null` }))
const Change = Type.Object({
  time_zone: orNull(TimeZone),
  language: orNull(Type.Union([Type.Literal("id"), Type.Literal("en")], { description: "'id' or 'en'" })),
  low_balance_email: orNull(Email),
  low_balance_threshold_micro: orNull(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: "an integer of micro-rupiah, 0 or more",
    }),
  ),
})
const readChange = bodyReader(Change, { nullIs: "a value" })
const readDeletion = bodyReader(Type.Object({ password: SomePassword }))

export const accountController = ({ accounts, authenticate }: AccountDeps) =>
  new Elysia({ name: "dashboard/account" })
    .get("/account", async ({ request }) => {
      const session = await authenticate(request)
      if (session instanceof Failure) return session
      const account = await accounts.account(session)
      return account instanceof Failure ? account : accountJson(account)
    })
    .patch(
      "/account",
      async ({ request }) => {
        const session = await authenticate(request)
        if (session instanceof Failure) return session
        const change = await readChange(request)
        if (change instanceof Failure) return change
        const account = await accounts.change(session, toChange(change))
        return account instanceof Failure ? account : accountJson(account)
      },
      takes(readChange),
    )
    .delete(
      "/account",
      async ({ request, set }) => {
        const session = await authenticate(request)
        if (session instanceof Failure) return session
        const deletion = await readDeletion(request)
        if (deletion instanceof Failure) return deletion
        const deleted = await accounts.delete(session, deletion.password, whereabouts(request))
        if (deleted instanceof Failure) return deleted
        set.status = 204
        set.headers["set-cookie"] = sessionCookie(request, "")
        return undefined
      },
      takes(readDeletion),
    )

const toChange = (change: Static<typeof Change>): AccountChange => ({
  timeZone: change.time_zone ?? undefined,
  language: change.language ?? undefined,
  lowBalanceEmail: change.low_balance_email,
  lowBalanceThresholdMicro: present(change.low_balance_threshold_micro)
    ? micro(BigInt(change.low_balance_threshold_micro))
    : change.low_balance_threshold_micro,
})

export const accountJson = (account: Account) => ({
  id: account.id,
  email: account.email,
  role: account.role,
  balance_micro: microToJson(account.balanceMicro),
  held_micro: microToJson(account.heldMicro),
  time_zone: account.timeZone,
  language: account.language,
  low_balance_email: account.lowBalanceEmail ?? null,
  low_balance_threshold_micro:
    account.lowBalanceThresholdMicro === undefined ? null : microToJson(account.lowBalanceThresholdMicro),
  frozen: account.frozen,
  created_at: account.createdAt.toISOString(),
})
