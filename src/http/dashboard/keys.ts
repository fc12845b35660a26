/**
 * `/keys`: the account's API keys and their limits (decisions §10); `/keys/{id}/tokens`: the management tokens of a key.
 */
import { Type, type Static } from "@sinclair/typebox"
import { Elysia } from "elysia"
import type { Session } from "../../accounts/accounts.ts"
import type { Children } from "../../accounts/children.ts"
import type { Keys } from "../../accounts/keys.ts"
import { Failure } from "../../failure/failure.ts"
import type { KeyName } from "../../store/account-settings.ts"
import type { KeyPage } from "../../store/api-keys.ts"
import { type KeyRecord, MAX_SPENT_DAYS } from "../../store/key-rows.ts"
import type { ManagementToken } from "../../store/credentials.ts"
import { exactly, field, pageOf, described, listOf, text, time } from "../shapes.ts"
import { KeyWithSecret, KeyWithUsage, ListedKey, keyJson, spendingJson, usageJson } from "./key-json.ts"
import { newBreaker, NewOwnKey, KeyChange, toChange, toWishes, Name } from "./key-settings.ts"
import { type Page, pageJson, pageQuery, readPage } from "./page.ts"
import { type Authenticate, signedInBy } from "./session.ts"

interface KeysDeps {
  readonly keys: Keys
  readonly authenticate: Authenticate
}

export const STATUS = /^(?:active|revoked)$/
export const KEY_ID = /^key_[A-Za-z0-9_-]{1,40}$/

const Parent = Type.RegExp(KEY_ID, { description: field("a key's id", "id sebuah kunci") })
const nameOf = ({ accountId }: Session, keyId: string): KeyName => ({ accountId, keyId })

const DAY_S = 24 * 60 * 60
const Rotation = exactly({
  overlap_s: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 7 * DAY_S,
      description: field("an integer of seconds from 0 to 604,800", "bilangan bulat detik dari 0 sampai 604.800"),
    }),
  ),
})

export const keysController = ({ keys, authenticate }: KeysDeps) => {
  const signedIn = signedInBy(authenticate)
  const shown = async (record: KeyRecord) => {
    const view = record.revokedAt === undefined ? await keys.live(record.keyHash) : undefined
    return { ...keyJson(record), usage: usageJson(record, view) }
  }
  return new Elysia({ name: "dashboard/keys" })
    .get(
      ...signedIn(
        "/keys",
        {
          may: "read",
          tag: "Keys",
          summary: {
            en: "The account's API keys: those that work, the newest first, then those that were revoked",
            id: "Kunci API akun: yang berlaku dulu, dari yang terbaru, lalu yang sudah dicabut",
          },
          description: {
            en: "Without the children of keys; `parent` lists those of one.",
            id: "Tanpa kunci anak; `parent` menampilkan anak dari satu kunci.",
          },
          query: Type.Object({
            ...pageQuery,
            parent: Type.Optional(Parent),
            days: Type.Optional(
              Type.Integer({
                minimum: 1,
                maximum: MAX_SPENT_DAYS,
                description: field(
                  `an integer from 1 to ${MAX_SPENT_DAYS}: with what each has spent on so many days`,
                  `bilangan bulat dari 1 sampai ${MAX_SPENT_DAYS}: dengan pengeluaran masing-masing selama sekian hari`,
                ),
              }),
            ),
          }),
          answer: pageOf(ListedKey),
        },
        async ({ session, query }) => {
          const page = readPage(query, [STATUS, KEY_ID])
          if (page instanceof Failure) return page
          const after = keyAfter(page)
          const { parent: childrenOf, days: spentDays } = query
          const records = await keys.list(session, { after, limit: page.limit + 1, childrenOf, spentDays })
          const { data, next_cursor } = pageJson(records, page, {
            item: async (record) => ({ ...(await shown(record)), ...spendingJson(record) }),
            placeOf: keyPlace,
          })
          return { data: await Promise.all(data), next_cursor }
        },
      ),
    )
    .post(
      ...signedIn(
        "/keys",
        {
          may: "build",
          tag: "Keys",
          summary: {
            en: "Make a key; it is shown whole this once. An account has a bounded number of keys that work, 200 unless the operator says otherwise",
            id: "Buat kunci; kunci utuhnya hanya ditampilkan sekali ini. Jumlah kunci yang berlaku di satu akun terbatas, 200 jika operator tidak menetapkan lain",
          },
          body: NewOwnKey,
          answer: KeyWithSecret,
          status: 201,
        },
        async ({ session, body, change }) => {
          const wishes = toWishes(body, Date.now())
          if (wishes instanceof Failure) return wishes
          const breaker = newBreaker(body)
          if (breaker instanceof Failure) return breaker
          const created = await keys.create(session, { ...wishes, breaker }, change)
          return created instanceof Failure ? created : { ...(await shown(created.record)), key: created.key }
        },
      ),
    )
    .patch(
      ...signedIn(
        "/keys/:id",
        {
          may: "build",
          tag: "Keys",
          summary: {
            en: "Change a key; null takes a limit or a binding away",
            id: "Ubah kunci; null menghapus sebuah batas atau ikatan",
          },
          body: KeyChange,
          answer: KeyWithUsage,
        },
        async ({ session, params, body }) => {
          if (!KEY_ID.test(params.id)) return new Failure("resource.not_found")
          const change = toChange(body)
          if (change instanceof Failure) return change
          const record = await keys.change(nameOf(session, params.id), change)
          return record instanceof Failure ? record : await shown(record)
        },
      ),
    )
    .post(
      ...signedIn(
        "/keys/:id/revoke",
        {
          may: "build",
          tag: "Keys",
          summary: { en: "Revoke a key, for good", id: "Cabut kunci untuk selamanya" },
          answer: KeyWithUsage,
        },
        async ({ session, params }) => {
          if (!KEY_ID.test(params.id)) return new Failure("resource.not_found")
          const record = await keys.revoke(nameOf(session, params.id))
          return record instanceof Failure ? record : await shown(record)
        },
      ),
    )
    .post(
      ...signedIn(
        "/keys/:id/rotate",
        {
          may: "build",
          tag: "Keys",
          summary: {
            en: "Give a key another secret, shown whole this once; the one before works on for a while",
            id: "Beri kunci rahasia baru, yang utuhnya hanya ditampilkan sekali ini; yang lama masih berlaku sementara",
          },
          description: {
            en: "Limits, windows and spending stay the key's. Without `overlap_s` the secret before works for a day.",
            id: "Batas, jendela, dan pengeluaran tetap milik kunci. Tanpa `overlap_s`, rahasia lama berlaku sehari lagi.",
          },
          body: Rotation,
          answer: KeyWithSecret,
          status: 201,
        },
        async ({ session, params, body, change }) => {
          if (!KEY_ID.test(params.id)) return new Failure("resource.not_found")
          const rotated = await keys.rotate(nameOf(session, params.id), body.overlap_s ?? DAY_S, change)
          return rotated instanceof Failure ? rotated : { ...(await shown(rotated.record)), key: rotated.key }
        },
      ),
    )
}

/** Where it stands in the list: one that has expired may be given more time, and stands with those that work. */
export const keyPlace = ({ id, revokedAt }: KeyRecord) => [revokedAt === undefined ? "active" : "revoked", id]

/** The place after which a page begins. */
export function keyAfter({ after: [status, id] = [] }: Pick<Page, "after">): KeyPage["after"] {
  return id === undefined ? undefined : { id, revoked: status === "revoked" }
}

interface ManagementTokensDeps {
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

/** With a management token children of its key are made at `/v1/keys`. */
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
