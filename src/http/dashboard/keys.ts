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
import { described, micro as microShape, integer, oneOf, orNull, pageOf, text, time } from "../shapes.ts"
import { pageJson, pageQuery, readPage } from "./page.ts"
import { type Authenticate, signedInBy } from "./session.ts"

export interface KeysDeps {
  readonly keys: Keys
  readonly authenticate: Authenticate
}

export const STATUS = /^(?:active|revoked)$/
export const KEY_ID = /^key_[A-Za-z0-9_-]{1,40}$/

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
const periods = ["daily", "monthly", "total"] as const
const Period = oneOf(periods, "'daily', 'monthly' or 'total'")
/** Also what the header `X-Fallback` may say. */
export const fallbackChoice = oneOf(["any", "never_dearer", "off"], "'any', 'never_dearer' or 'off'")

const limits = {
  requests_per_minute: PerMinute,
  tokens_per_minute: PerMinute,
  spending_limit_micro: LimitMicro,
  spending_period: Period,
}
const NewKey = Type.Object({
  name: Name,
  ...Type.Partial(Type.Object(limits)).properties,
  fallback: Type.Optional(fallbackChoice),
})

/** In a change null is a value: it removes. */
const removable = <T extends TSchema>(schema: T) =>
  Type.Optional(orNull(schema, `${schema.description}, or null for none`))
const KeyChange = Type.Object({
  name: Type.Optional(Name),
  requests_per_minute: removable(PerMinute),
  tokens_per_minute: removable(PerMinute),
  spending_limit_micro: removable(LimitMicro),
  spending_period: removable(Period),
  fallback: Type.Optional(fallbackChoice),
})

const DAY_S = 24 * 60 * 60
const Rotation = Type.Object({
  overlap_s: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 7 * DAY_S, description: "an integer of seconds from 0 to 604,800" }),
  ),
})

export const keyShape = Type.Object(
  {
    id: text,
    name: text,
    prefix: text,
    last4: text,
    status: oneOf(["active", "revoked"]),
    requests_per_minute: orNull(integer),
    tokens_per_minute: orNull(integer),
    spending_limit_micro: orNull(microShape),
    spending_period: orNull(oneOf(periods)),
    fallback: described(
      fallbackChoice,
      "Which models of a chain may answer for the one that was asked for: `any`, only those none of whose four rates is above its (`never_dearer`, the default), or none (`off`).",
    ),
    spent_micro: orNull(microShape, "Settled in the current period; null for a key without a spending limit."),
    created_at: time,
    revoked_at: orNull(time),
    last_used_at: orNull(time, "When the last call came that was forwarded."),
    expires_at: Type.Null(),
    previous_expires_at: orNull(time, "Until when the secret before a rotation works."),
  },
  { $id: "Key" },
)
const window = orNull(Type.Object({ limit: integer, used: integer, resets_in_s: integer }))
const KeyWithUsage = Type.Intersect([
  keyShape,
  Type.Object({
    usage: Type.Object(
      {
        requests: window,
        tokens: window,
        budget: orNull(
          Type.Object({
            limit_micro: integer,
            used_micro: described(microShape, "With what calls under way hold of it."),
            resets_at: orNull(text),
          }),
        ),
      },
      {
        description: "What is used of each limit now; of windows, what the process that answers has counted.",
      },
    ),
  }),
])
const KeyWithSecret = Type.Intersect([KeyWithUsage, Type.Object({ key: text })])

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
          tag: "Keys",
          summary: "The account's API keys: those that work, the newest first, then those that were revoked",
          query: Type.Object(pageQuery),
          answer: pageOf(KeyWithUsage),
        },
        async ({ session, query }) => {
          const page = readPage(query, [STATUS, KEY_ID])
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
      ),
    )
    .post(
      ...signedIn(
        "/keys",
        {
          tag: "Keys",
          summary:
            "Make a key; it is shown whole this once. An account has a bounded number of keys that work, 200 unless the operator says otherwise",
          body: NewKey,
          answer: KeyWithSecret,
          status: 201,
        },
        async ({ session, body }) => {
          const created = await keys.create(session, {
            name: body.name,
            requestsPerMinute: body.requests_per_minute,
            tokensPerMinute: body.tokens_per_minute,
            spendingLimitMicro: toMicro(body.spending_limit_micro),
            spendingPeriod: body.spending_period,
            fallback: body.fallback,
          })
          return created instanceof Failure ? created : { ...(await shown(created.record)), key: created.key }
        },
      ),
    )
    .patch(
      ...signedIn(
        "/keys/:id",
        { tag: "Keys", summary: "Change a key; null takes a limit away", body: KeyChange, answer: KeyWithUsage },
        async ({ session, params, body }) => {
          if (!KEY_ID.test(params.id)) return new Failure("resource.not_found")
          const record = await keys.change(session, params.id, toChange(body))
          return record instanceof Failure ? record : await shown(record)
        },
      ),
    )
    .post(
      ...signedIn(
        "/keys/:id/revoke",
        { tag: "Keys", summary: "Revoke a key, for good", answer: KeyWithUsage },
        async ({ session, params }) => {
          if (!KEY_ID.test(params.id)) return new Failure("resource.not_found")
          const record = await keys.revoke(session, params.id)
          return record instanceof Failure ? record : await shown(record)
        },
      ),
    )
    .post(
      ...signedIn(
        "/keys/:id/rotate",
        {
          tag: "Keys",
          summary: "Give a key another secret, shown whole this once; the one before works on for a while",
          description:
            "Limits, windows and spending stay the key's. Without `overlap_s` the secret before works for a day.",
          body: Rotation,
          answer: KeyWithSecret,
          status: 201,
        },
        async ({ session, params, body }) => {
          if (!KEY_ID.test(params.id)) return new Failure("resource.not_found")
          const rotated = await keys.rotate(session, params.id, body.overlap_s ?? DAY_S)
          return rotated instanceof Failure ? rotated : { ...(await shown(rotated.record)), key: rotated.key }
        },
      ),
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

const toChange = (body: Static<typeof KeyChange>) => ({
  name: body.name,
  requestsPerMinute: body.requests_per_minute,
  tokensPerMinute: body.tokens_per_minute,
  spendingLimitMicro: present(body.spending_limit_micro)
    ? micro(BigInt(body.spending_limit_micro))
    : body.spending_limit_micro,
  spendingPeriod: body.spending_period,
  fallback: body.fallback,
})

export const keyStatus = (key: KeyRecord): "active" | "revoked" => (key.revokedAt === undefined ? "active" : "revoked")

export const keyJson = (key: KeyRecord): Static<typeof keyShape> => ({
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
  spent_micro: key.budget === undefined ? null : microToJson(key.budget.spentMicro),
  created_at: key.createdAt.toISOString(),
  last_used_at: key.lastUsedAt?.toISOString() ?? null,
  expires_at: null,
  previous_expires_at: key.previousExpiresAt?.toISOString() ?? null,
  revoked_at: key.revokedAt?.toISOString() ?? null,
})
