/** `/account`: the signed-in person's own account (decisions §10). */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { microToJson } from "../../../actors/money/micro.ts"
import type { Accounts } from "../../accounts/accounts.ts"
import { SomePassword, TimeZone } from "../../accounts/fields.ts"
import { Failure } from "../../failure/failure.ts"
import type { Account } from "../../store/accounts.ts"
import { type ClientAddress, peerAddress } from "./address.ts"
import { bodyReader } from "./body.ts"
import { type Authenticate, sessionCookie } from "./session.ts"

export interface AccountDeps {
  readonly accounts: Accounts
  readonly authenticate: Authenticate
  readonly clientAddress?: ClientAddress
}

const readChange = bodyReader(Type.Object({ time_zone: Type.Optional(TimeZone) }))
const readDeletion = bodyReader(Type.Object({ password: SomePassword }))

export const accountController = ({ accounts, authenticate, clientAddress = peerAddress }: AccountDeps) =>
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
        const timeZone = change.time_zone
        const account =
          timeZone === undefined ? await accounts.account(session) : await accounts.changeTimeZone(session, timeZone)
        return account instanceof Failure ? account : accountJson(account)
      },
      { parse: "none" },
    )
    .delete(
      "/account",
      async ({ request, set }) => {
        const session = await authenticate(request)
        if (session instanceof Failure) return session
        const deletion = await readDeletion(request)
        if (deletion instanceof Failure) return deletion
        const deleted = await accounts.delete(session, deletion.password, { address: clientAddress(request) })
        if (deleted instanceof Failure) return deleted
        set.status = 204
        set.headers["set-cookie"] = sessionCookie(request, "")
        return undefined
      },
      { parse: "none" },
    )

export const accountJson = (account: Account) => ({
  id: account.id,
  email: account.email,
  role: account.role,
  balance_micro: microToJson(account.balanceMicro),
  held_micro: microToJson(account.heldMicro),
  time_zone: account.timeZone,
  created_at: account.createdAt.toISOString(),
})
