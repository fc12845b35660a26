/** `/keys`: the account's API keys and their limits (decisions §10). */
import { type Static, type TSchema, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { larger, micro, microToJson, zero } from "../../../actors/money/micro.ts"
import type { KeyView } from "../../../actors/key.ts"
import type { WindowView } from "../../../actors/window.ts"
import type { Keys } from "../../accounts/keys.ts"
import { present } from "../../language/json.ts"
import { Failure } from "../../failure/failure.ts"
import type { KeyRecord } from "../../store/api-keys.ts"
import { bodyReader } from "./body.ts"
import { asks, takes } from "./contract.ts"
import { type PageQuery, pageJson, pageOf } from "./page.ts"
import type { Authenticate } from "./session.ts"

export interface KeysDeps {
  readonly keys: Keys
  readonly authenticate: Authenticate
}

const STATUS = /^(?:active|revoked)$/
const KEY_ID = /^key_[A-Za-z0-9_-]{1,40}$/

const Name = Type.RegExp(/^(?=.*\S)[^\p{Cc}]{1,100}$/u, { description: "a string of 1 to 100 characters on one line" })
const PerMinute = Type.Integer({
  minimum: 1,
  maximum: 2_147_483_647,
  description: "an integer from 1 to 2,147,483,647",
})
const LimitMicro = Type.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: "an integer of micro-rupiah, 0 or more",
})
const Period = Type.Union([Type.Literal("daily"), Type.Literal("monthly"), Type.Literal("total")], {
  description: "'daily', 'monthly' or 'total'",
})
const FallbackChoice = Type.Union([Type.Literal("any"), Type.Literal("never_dearer"), Type.Literal("off")], {
  description: "'any', 'never_dearer' or 'off'",
})

const NewKeyBody = Type.Object({
  name: Name,
  requests_per_minute: Type.Optional(PerMinute),
  tokens_per_minute: Type.Optional(PerMinute),
  spending_limit_micro: Type.Optional(LimitMicro),
  spending_period: Type.Optional(Period),
  fallback: Type.Optional(FallbackChoice),
})
const readNewKey = bodyReader(NewKeyBody)

/** In a change null is a value: it removes. */
const removable = <T extends TSchema>(schema: T) =>
  Type.Optional(Type.Union([schema, Type.Null()], { description: `${schema.description}, or null for none` }))
const KeyChangeBody = Type.Object({
  name: Type.Optional(Name),
  requests_per_minute: removable(PerMinute),
  tokens_per_minute: removable(PerMinute),
  spending_limit_micro: removable(LimitMicro),
  spending_period: removable(Period),
  fallback: Type.Optional(FallbackChoice),
})
const readKeyChange = bodyReader(KeyChangeBody, { nullIs: "a value" })

const DAY_S = 24 * 60 * 60
const readRotation = bodyReader(
  Type.Object({
    overlap_s: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 7 * DAY_S, description: "an integer of seconds from 0 to 604,800" }),
    ),
  }),
)

export const keysController = ({ keys, authenticate }: KeysDeps) => {
  const shown = async (record: KeyRecord) => {
    const view = record.revokedAt === undefined ? await keys.live(record.keyHash) : undefined
    return { ...keyJson(record), usage: usageJson(record, view) }
  }
  return new Elysia({ name: "dashboard/keys" })
    .get(
      "/keys",
      async ({ request }) => {
        const session = await authenticate(request)
        if (session instanceof Failure) return session
        const page = pageOf(request.url, [STATUS, KEY_ID])
        if (page instanceof Failure) return page
        const [status, id] = page.after ?? []
        const after = id === undefined ? undefined : { id, revoked: status === "revoked" }
        const records = await keys.list(session, { after, limit: page.limit + 1 })
        const { data, next_cursor } = pageJson(records, page, {
          item: shown,
          placeOf: (record) => [keyStatus(record), record.id],
        })
        return { data: await Promise.all(data), next_cursor }
      },
      asks<PageQuery>(),
    )
    .post(
      "/keys",
      async ({ request, set }) => {
        const session = await authenticate(request)
        if (session instanceof Failure) return session
        const body = await readNewKey(request)
        if (body instanceof Failure) return body
        const created = await keys.create(session, {
          name: body.name,
          requestsPerMinute: body.requests_per_minute,
          tokensPerMinute: body.tokens_per_minute,
          spendingLimitMicro: toMicro(body.spending_limit_micro),
          spendingPeriod: body.spending_period,
          fallback: body.fallback,
        })
        if (created instanceof Failure) return created
        set.status = 201
        return { ...(await shown(created.record)), key: created.key }
      },
      takes(readNewKey),
    )
    .patch(
      "/keys/:id",
      async ({ request, params }) => {
        const session = await authenticate(request)
        if (session instanceof Failure) return session
        const body = await readKeyChange(request)
        if (body instanceof Failure) return body
        if (!KEY_ID.test(params.id)) return new Failure("resource.not_found")
        const record = await keys.change(session, params.id, toChange(body))
        return record instanceof Failure ? record : await shown(record)
      },
      takes(readKeyChange),
    )
    .post(
      "/keys/:id/revoke",
      async ({ request, params }) => {
        const session = await authenticate(request)
        if (session instanceof Failure) return session
        if (!KEY_ID.test(params.id)) return new Failure("resource.not_found")
        const record = await keys.revoke(session, params.id)
        return record instanceof Failure ? record : await shown(record)
      },
      { parse: "none" },
    )
    .post(
      "/keys/:id/rotate",
      async ({ request, params, set }) => {
        const session = await authenticate(request)
        if (session instanceof Failure) return session
        const body = await readRotation(request)
        if (body instanceof Failure) return body
        if (!KEY_ID.test(params.id)) return new Failure("resource.not_found")
        const rotated = await keys.rotate(session, params.id, body.overlap_s ?? DAY_S)
        if (rotated instanceof Failure) return rotated
        set.status = 201
        return { ...(await shown(rotated.record)), key: rotated.key }
      },
      takes(readRotation),
    )
}

/** For usage bars: what is used of each limit now, as far as this process knows. */
function usageJson({ requestsPerMinute, tokensPerMinute, budget }: KeyRecord, view: KeyView | undefined) {
  return {
    requests: windowJson(requestsPerMinute, view?.requests),
    tokens: windowJson(tokensPerMinute, view?.tokens),
    budget:
      budget === undefined
        ? null
        : {
            limit_micro: microToJson(budget.limitMicro),
            /** With what calls under way hold of it. */
            used_micro: microToJson(larger(budget.spentMicro, view?.budget?.usage ?? zero)),
            resets_at: budget.endsAt?.toISOString() ?? null,
          },
  }
}

const windowJson = (limit: number | undefined, now: WindowView | undefined) =>
  limit === undefined
    ? null
    : { limit, used: now === undefined ? 0 : now.limit - now.remaining, resets_in_s: now?.resetS ?? 0 }

const toMicro = (value: number | undefined) => (value === undefined ? undefined : micro(BigInt(value)))

const toChange = (body: Static<typeof KeyChangeBody>) => ({
  name: body.name,
  requestsPerMinute: body.requests_per_minute,
  tokensPerMinute: body.tokens_per_minute,
  spendingLimitMicro: present(body.spending_limit_micro)
    ? micro(BigInt(body.spending_limit_micro))
    : body.spending_limit_micro,
  spendingPeriod: body.spending_period,
  fallback: body.fallback,
})

const keyStatus = (key: KeyRecord) => (key.revokedAt === undefined ? "active" : "revoked")

export const keyJson = (key: KeyRecord) => ({
  id: key.id,
  name: key.name,
  prefix: key.prefix,
  last4: key.last4,
  status: keyStatus(key),
  requests_per_minute: key.requestsPerMinute ?? null,
  tokens_per_minute: key.tokensPerMinute ?? null,
  spending_limit_micro: key.budget === undefined ? null : microToJson(key.budget.limitMicro),
  spending_period: key.budget?.period ?? null,
  fallback: key.fallback,
  /** Settled in the current period; null for a key without a spending limit. */
  spent_micro: key.budget === undefined ? null : microToJson(key.budget.spentMicro),
  created_at: key.createdAt.toISOString(),
  last_used_at: key.lastUsedAt?.toISOString() ?? null,
  expires_at: null,
  previous_expires_at: key.previousExpiresAt?.toISOString() ?? null,
  revoked_at: key.revokedAt?.toISOString() ?? null,
})
