/**
 * `/v1/keys`: children of a key, made with a management token of it, for each member of a class or a team. What is not said of a child
 * is its parent's. Free.
 */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import type { Children, Manager } from "../accounts/children.ts"
import { Failure } from "../failure/failure.ts"
import { keyFrom } from "../gateway/authenticate.ts"
import { actingAs } from "../store/database.ts"
import type { KeyRecord } from "../store/key-rows.ts"
import type { Changes } from "./changes.ts"
import { KEY_ID, keyAfter, keyPlace, STATUS } from "./dashboard/keys.ts"
import { keyJson, keyShape } from "./dashboard/key-json.ts"
import { KeyChange, NewKey, toChange, toWishes } from "./dashboard/key-settings.ts"
import { pageJson, pageQuery, readPage } from "./dashboard/page.ts"
import { inTurn, lookUp } from "./dashboard/session.ts"
import { edge } from "./edge.ts"
import { routesFor } from "./route.ts"
import { described, field, type Said, text } from "./shapes.ts"

export interface ChildrenDeps {
  readonly children: Children
  readonly changes: Pick<Changes, "once">
}

const shown = [
  "id",
  "name",
  "prefix",
  "last4",
  "status",
  "requests_per_minute",
  "tokens_per_minute",
  "spending_limit_micro",
  "spending_period",
  "spent_micro",
  "fallback",
  "replays_retries",
  "expires_at",
  "models",
  "endpoints",
  "networks",
  "origins",
  "max_rate_micro",
  "created_at",
  "revoked_at",
  "last_used_at",
] as const

const Child = Type.Object(
  {
    ...Type.Pick(keyShape, [...shown]).properties,
    parent_id: described(
      text,
      field(
        "The key whose child it is: its limits hold beside the child's own.",
        "Kunci induknya: batasnya berlaku di samping batas anaknya sendiri.",
      ),
    ),
  },
  {
    $id: "ChildKey",
    description: field(
      "A child of a key. Null is no limit of its own, beside its parent's.",
      "Anak sebuah kunci. Null berarti tanpa batas sendiri, di samping batas induknya.",
    ),
  },
)
const ChildWithSecret = Type.Intersect([
  Child,
  Type.Object({ key: described(text, field("Shown this once.", "Hanya ditampilkan sekali ini.")) }),
])
const NewChild = Type.Omit(NewKey, ["shows_balance"])
const ChildChange = Type.Omit(KeyChange, ["shows_balance"])

const OUTSIDE: Said = {
  en: "A limit must lie inside the parent's, else 400 `request.invalid` names it; one that is not given is the parent's. The parent's limits hold beside the child's as they are when a call comes, and its calls count in the parent's windows, budget and ceiling of ten minutes.",
  id: "Batas harus berada di dalam batas induknya, jika tidak 400 `request.invalid` menyebutnya; yang tidak disebut mengikuti induk. Batas induk berlaku bersama batas anak seperti saat panggilan datang, dan panggilan anak dihitung dalam jendela, anggaran, dan batas sepuluh menit induk.",
}

export const childrenController = ({ children, changes }: ChildrenDeps) => {
  const managed = routesFor<{ readonly manager: Manager }>(
    "token",
    async (request) => {
      const manager = await lookUp(request, () => children.authenticate(keyFrom(request.headers)))
      return manager instanceof Failure ? manager : { manager }
    },
    // A token must not meet what another one was answered: that has the secrets of its keys.
    ({ manager: { accountId, tokenId } }, sent, work) => changes.once({ accountId, personId: tokenId, ...sent }, work),
    ({ manager: { tokenId } }, work) => actingAs({ tokenId }, work),
    ({ manager: { accountId, tokenId: id } }, request, work) => inTurn({ accountId, id }, request, work),
  )
  return new Elysia({ name: "children" })
    .use(edge)
    .get(
      ...managed(
        "/v1/keys",
        {
          tag: "Keys",
          summary: {
            en: "The children of the token's key: those that work, the newest first, then those that were revoked",
            id: "Anak dari kunci pemilik token ini: yang berlaku dulu, dari yang terbaru, lalu yang sudah dicabut",
          },
          query: Type.Object(pageQuery),
          answer: Type.Object({
            data: Type.Array(Child),
            next_cursor: Type.Union([text, Type.Null()]),
          }),
        },
        async ({ manager, query }) => {
          const page = readPage(query, [STATUS, KEY_ID])
          if (page instanceof Failure) return page
          const after = keyAfter(page)
          const records = await children.list(manager, { after, limit: page.limit + 1 })
          return pageJson(records, page, { item: childJson, placeOf: keyPlace })
        },
      ),
    )
    .post(
      ...managed(
        "/v1/keys",
        {
          tag: "Keys",
          summary: {
            en: "Make a child of the token's key; it is shown whole this once. A key has at most 1,000 that work",
            id: "Buat kunci anak; kunci utuhnya hanya ditampilkan sekali ini. Satu kunci punya paling banyak 1.000 anak yang berlaku",
          },
          description: OUTSIDE,
          body: NewChild,
          answer: ChildWithSecret,
          status: 201,
        },
        async ({ manager, body, change }) => {
          const wishes = toWishes(body, Date.now())
          if (wishes instanceof Failure) return wishes
          const made = await children.create(manager, wishes, change)
          return made instanceof Failure ? made : { ...childJson(made.record), key: made.key }
        },
      ),
    )
    .get(
      ...managed(
        "/v1/keys/:id",
        { tag: "Keys", summary: { en: "A child of the token's key", id: "Satu kunci anak" }, answer: Child },
        async ({ manager, params }) => answer(await named(params.id, (id) => children.read(manager, id))),
      ),
    )
    .patch(
      ...managed(
        "/v1/keys/:id",
        {
          tag: "Keys",
          summary: {
            en: "Change a child; null takes a limit or a binding of its own away",
            id: "Ubah kunci anak; null menghapus batas atau ikatannya sendiri",
          },
          description: OUTSIDE,
          body: ChildChange,
          answer: Child,
        },
        async ({ manager, params, body }) => {
          const change = toChange(body)
          if (change instanceof Failure) return change
          return answer(await named(params.id, (id) => children.change(manager, id, change)))
        },
      ),
    )
    .delete(
      ...managed(
        "/v1/keys/:id",
        {
          tag: "Keys",
          summary: {
            en: "Revoke a child, for good; it stays in the list",
            id: "Cabut kunci anak untuk selamanya; kunci itu tetap ada di daftar",
          },
          answer: Child,
        },
        async ({ manager, params }) => answer(await named(params.id, (id) => children.revoke(manager, id))),
      ),
    )
}

const named = async (id: string, find: (id: string) => Promise<KeyRecord | Failure>): Promise<KeyRecord | Failure> =>
  KEY_ID.test(id) ? await find(id) : new Failure("resource.not_found")

const answer = (record: KeyRecord | Failure) => (record instanceof Failure ? record : childJson(record))

function childJson(record: KeyRecord): Static<typeof Child> {
  const {
    shows_balance: _,
    breaker_ceiling_micro: _ceiling,
    breaker_action: _action,
    breaker_pause_minutes: _minutes,
    paused: _paused,
    previous_expires_at: _previous,
    children: _children,
    ...child
  } = keyJson(record)
  return { ...child, parent_id: record.parentId ?? "" }
}
