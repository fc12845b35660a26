/** `/keys/{id}/tokens`: the management tokens of a key, with which children of it are made at `/v1/keys`. */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import type { Children } from "../../accounts/children.ts"
import { Failure } from "../../failure/failure.ts"
import type { ManagementToken } from "../../store/management-tokens.ts"
import { described, field, listOf, text, time } from "../shapes.ts"
import { KEY_ID } from "./keys.ts"
import { Name } from "./key-settings.ts"
import { type Authenticate, signedInBy } from "./session.ts"

export interface ManagementTokensDeps {
  readonly children: Children
  readonly authenticate: Authenticate
}

const TOKEN_ID = /^mgt_[A-Za-z0-9_-]{1,40}$/

const Token = Type.Object(
  { id: text, name: text, prefix: text, last4: text, created_at: time },
  { $id: "ManagementToken" },
)
const TokenWithSecret = Type.Intersect([
  Token,
  Type.Object({ token: described(text, field("Shown this once.", "Hanya ditampilkan sekali ini.")) }),
])

export const managementTokensController = ({ children, authenticate }: ManagementTokensDeps) => {
  const signedIn = signedInBy(authenticate)
  return new Elysia({ name: "dashboard/management-tokens" })
    .get(
      ...signedIn(
        "/keys/:id/tokens",
        {
          may: "read",
          tag: "Keys",
          summary: {
            en: "The management tokens of a key, the newest first",
            id: "Token pengelola sebuah kunci, dari yang terbaru",
          },
          answer: listOf(Token),
        },
        async ({ session: { accountId }, params: { id: keyId } }) => {
          if (!KEY_ID.test(keyId)) return new Failure("resource.not_found")
          const tokens = await children.tokens({ accountId, keyId })
          return tokens instanceof Failure ? tokens : { data: tokens.map(tokenJson) }
        },
      ),
    )
    .post(
      ...signedIn(
        "/keys/:id/tokens",
        {
          // Whoever has one goes on making keys when a membership has ended.
          may: "manage",
          tag: "Keys",
          summary: {
            en: "Make a management token of a key, with which children of it are made at /v1/keys; at most 5 of a key",
            id: "Buat token pengelola sebuah kunci, untuk membuat anaknya di /v1/keys; paling banyak 5 per kunci",
          },
          description: {
            en: "It is shown whole this once, makes no calls, and opens nothing else of the account.",
            id: "Token utuhnya hanya ditampilkan sekali ini, tidak dapat memanggil model, dan tidak membuka apa pun yang lain di akun.",
          },
          body: Type.Object({ name: Name }),
          answer: TokenWithSecret,
          status: 201,
        },
        async ({ session: { accountId }, params: { id: keyId }, body, change }) => {
          if (!KEY_ID.test(keyId)) return new Failure("resource.not_found")
          const made = await children.createToken({ accountId, keyId }, body.name, change)
          return made instanceof Failure ? made : { ...tokenJson(made.record), token: made.token }
        },
      ),
    )
    .post(
      ...signedIn(
        "/keys/:id/tokens/:token/revoke",
        {
          may: "build",
          tag: "Keys",
          summary: {
            en: "Revoke a management token, for good; the keys that were made with it work on",
            id: "Cabut token pengelola untuk selamanya; kunci yang dibuat dengannya tetap berlaku",
          },
          status: 204,
        },
        async ({ session: { accountId }, params: { id: keyId, token } }) => {
          if (!KEY_ID.test(keyId) || !TOKEN_ID.test(token)) return new Failure("resource.not_found")
          const revoked = await children.revokeToken({ accountId, keyId }, token)
          return revoked instanceof Failure ? revoked : undefined
        },
      ),
    )
}

const tokenJson = ({ id, name, prefix, last4, createdAt }: ManagementToken): Static<typeof Token> => ({
  id,
  name,
  prefix,
  last4,
  created_at: createdAt.toISOString(),
})
