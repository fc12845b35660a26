/**
 * `/operator/backends`: the pool of each model, with how its members have done in the last minutes as this process saw them;
 * `/operator/members`: what operators set of a member while it is at work. This process does so at once, the others soon after.
 */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { type LiveCatalogue, MEMBER_STATES } from "../../catalogue/model.ts"
import { Failure } from "../../failure/failure.ts"
import { type BackendHealth, type BackendView, failureClasses, HEALTH_MINUTES } from "../../gateway/backend-health.ts"
import type { PoolMember, Pools } from "../../gateway/pools.ts"
import type { MemberChange, MemberStore } from "../../store/operator/models.ts"
import { type Authenticate, operatorBy } from "../dashboard/session.ts"
import { described, exactly, field, flag, integer, oneOf, orNull, text, time } from "../shapes.ts"
import { modelShape } from "./model-json.ts"
import { DryRun } from "./models.ts"

export interface BackendsDeps {
  readonly authenticate: Authenticate
  readonly health: BackendHealth
  readonly pools: Pools
  readonly catalogue: LiveCatalogue
  readonly members: MemberStore
  readonly now: () => number
  readonly processId: string
  readonly refreshCatalogue: () => Promise<void>
}

/** What is no fault of the backend's does not count as a failure: a request that it did not take. */
const faults = failureClasses.filter((name) => name !== "refused_request")
const CIRCUITS = ["closed", "half-open", "open"] as const

const Circuit = {
  circuit: described(
    oneOf(CIRCUITS),
    field("Open: it is not asked while another one is well.", "`open`: tidak ditanya selama ada yang lain yang sehat."),
  ),
  reopens_in_s: orNull(
    integer,
    field(
      "Of an open circuit: when one call is let through again.",
      "Jika `open`: kapan satu panggilan dilewatkan lagi.",
    ),
  ),
}
const MemberShape = Type.Object({
  member: described(
    text,
    field(
      "Provider, credential and the backend's own name of the model.",
      "Penyedia, kredensial, dan nama model menurut backend.",
    ),
  ),
  provider: text,
  credential: text,
  backend_model: text,
  format: text,
  priority: integer,
  state: oneOf(MEMBER_STATES),
  weight: described(
    integer,
    field(
      "In force: an operator's, or the catalogue's; of one that is draining 0.",
      "Yang berlaku: dari operator, atau dari katalog; 0 untuk yang sedang dikosongkan.",
    ),
  ),
  own_weight: orNull(integer, field("An operator's.", "Dari operator.")),
  catalogue_weight: integer,
  ...Circuit,
  credential_circuit: described(
    oneOf(CIRCUITS),
    field("Of the credential, with whatever model it is used.", "Milik kredensialnya, dengan model apa pun dipakai."),
  ),
  under_way: integer,
  max_concurrency: orNull(
    integer,
    field(
      "The less of the member's and of its credential's.",
      "Yang lebih kecil dari batas anggota dan batas kredensialnya.",
    ),
  ),
  share: orNull(
    Type.Number(),
    field("Of the tries of its pool; null without any.", "Dari percobaan di kumpulannya; null jika belum ada."),
  ),
  calls: described(integer, field("Tries.", "Percobaan.")),
  answered: integer,
  failures: described(
    integer,
    field("Without requests that the backend did not take.", "Tanpa permintaan yang tidak diterima backend."),
  ),
  by_class: Type.Record(Type.String(), Type.Integer()),
  first_token_p50_ms: orNull(integer),
  first_token_p95_ms: orNull(integer),
  last_failure: orNull(Type.Object({ at: time, class: oneOf(failureClasses), status: orNull(integer) })),
})
const BackendsShape = Type.Object({
  process_id: text,
  minutes: integer,
  data: Type.Array(
    Type.Object({
      model: text,
      configured: modelShape.properties.configured,
      members: Type.Array(MemberShape),
    }),
  ),
})

const ChangeBody = exactly({
  state: Type.Optional(oneOf(MEMBER_STATES)),
  weight: Type.Optional(
    Type.Union([Type.Integer({ minimum: 0, maximum: 100_000_000 }), Type.Null()], {
      description: field(
        "a whole number from 0 to 100000000, or null for the catalogue's",
        "bilangan bulat dari 0 sampai 100000000, atau null untuk bobot dari katalog",
      ),
    }),
  ),
})
const State = orNull(Type.Record(Type.String(), Type.Unknown()))
const Changed = Type.Object({ dry_run: flag, member: text, before: State, after: State })

export const backendsController = (deps: BackendsDeps) => {
  const { authenticate, members, now, refreshCatalogue } = deps
  const operators = operatorBy(authenticate)
  return new Elysia({ name: "operator/backends" })
    .get(
      ...operators(
        "/operator/backends",
        {
          tag: "Operator",
          role: "support",
          summary: {
            en: "The pools of models, and how their members did in the last minutes, as the process that answers saw it",
            id: "Kumpulan backend setiap model, dan keadaan anggotanya dalam beberapa menit terakhir menurut proses yang menjawab",
          },
          answer: BackendsShape,
        },
        async () => ({ process_id: deps.processId, minutes: HEALTH_MINUTES, data: poolsJson(deps) }),
      ),
    )
    .patch(
      ...operators(
        "/operator/members/:member",
        {
          tag: "Operator",
          role: "owner",
          summary: {
            en: "Drain, disable or reweigh a member of a pool",
            id: "Kosongkan, matikan, atau ubah bobot anggota kumpulan",
          },
          description: {
            en: "One that is `draining` is asked only where no other one is well and has room, one that is `disabled` not at all. Calls under way go on.",
            id: "Anggota yang `draining` hanya dipakai jika tidak ada yang lain yang sehat dan punya tempat, yang `disabled` tidak sama sekali. Panggilan yang sedang berjalan diteruskan.",
          },
          query: DryRun,
          body: ChangeBody,
          answer: Changed,
        },
        async ({ params, query, body, operator }) => {
          const member = params.member
          if (!isThere(deps, member)) return new Failure("resource.not_found")
          const { state = "serving", weight = null } = deps.catalogue.member(member) ?? {}
          const change: MemberChange = {
            ...(body.state !== undefined && { state: body.state }),
            ...(body.weight !== undefined && { weight: body.weight }),
          }
          const before = {
            ...(body.state !== undefined && { state }),
            ...(body.weight !== undefined && { weight }),
          }
          const { dry_run = false }: Static<typeof DryRun> = query
          if (!dry_run) {
            await members.change(member, change, operator.act)
            await refreshCatalogue()
          }
          return { dry_run, member, before, after: { ...change } }
        },
      ),
    )
    .post(
      ...operators(
        "/operator/members/:member/retry",
        {
          tag: "Operator",
          role: "owner",
          summary: { en: "Ask a member again now", id: "Coba lagi sebuah anggota sekarang" },
          description: {
            en: "Its circuit and its credential's are closed in every process.",
            id: "Pemutus arus anggota dan pemutus arus kredensialnya ditutup di setiap proses.",
          },
          answer: Type.Object({ member: text, retried_at: time }),
        },
        async ({ params, operator }) => {
          const member = params.member
          if (!isThere(deps, member)) return new Failure("resource.not_found")
          const at = new Date(now())
          await members.retry(member, at, operator.act)
          await refreshCatalogue()
          return { member, retried_at: at.toISOString() }
        },
      ),
    )
}

const modelsOf = ({ catalogue, now }: BackendsDeps) => catalogue.offers(now()).map(({ model }) => model)

const isThere = (deps: BackendsDeps, id: string): boolean =>
  modelsOf(deps).some((model) => deps.pools.all(model).some(({ member }) => member.id === id))

const poolsJson = (deps: BackendsDeps) => {
  const views = deps.health.views()
  return modelsOf(deps).map((model) => {
    const members = deps.pools.all(model)
    const seen = views.filter((view) => view.model === model.id)
    const tries = seen.reduce((sum, { calls }) => sum + calls, 0)
    return {
      model: model.id,
      configured: members.length > 0,
      members: members.map((one) => {
        const view = seen.find((each) => each.member === one.member.id)
        const ownWeight = deps.catalogue.member(one.member.id)?.weight ?? null
        return { ...memberJson(one, deps.pools.clock.monotonic(), view, tries), own_weight: ownWeight }
      }),
    }
  })
}

function memberJson(place: PoolMember, nowMs: number, view: BackendView | undefined, tries: number) {
  const { member, own, credential, state, weight } = place
  const { upstream, backend } = member
  const circuit = own.circuit.state(nowMs)
  const mosts = [upstream.maxConcurrency, backend.credential.maxConcurrency].filter((most) => most !== undefined)
  const last = view?.lastFailure
  return {
    member: member.id,
    provider: upstream.provider,
    credential: backend.credential.name,
    backend_model: upstream.model,
    format: upstream.format,
    priority: upstream.priority,
    state,
    weight,
    catalogue_weight: member.weight,
    circuit,
    reopens_in_s: circuit === "open" ? Math.ceil((own.circuit.reopensAt - nowMs) / 1_000) : null,
    credential_circuit: credential.circuit.state(nowMs),
    under_way: own.capacity.inFlight,
    max_concurrency: mosts.length === 0 ? null : Math.min(...mosts),
    share: tries === 0 ? null : (view?.calls ?? 0) / tries,
    calls: view?.calls ?? 0,
    answered: view?.answered ?? 0,
    failures: view === undefined ? 0 : faults.reduce((sum, name) => sum + view.failures[name], 0),
    by_class: view?.failures ?? {},
    first_token_p50_ms: view?.p50Ms ?? null,
    first_token_p95_ms: view?.p95Ms ?? null,
    last_failure:
      last === undefined
        ? null
        : { at: new Date(last.at).toISOString(), class: last.class, status: last.status ?? null },
  }
}
