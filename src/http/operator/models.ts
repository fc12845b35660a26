/**
 * `/operator/models`: the catalogue with its prices, and its changes. Every change answers with the state before and after;
 * with `?dry_run=true` it is checked and not made. This process sells by it at once, the others soon after.
 */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { micro } from "../../../actors/money/micro.ts"
import { FIELD_NAME } from "../../catalogue/schema.ts"
import { Failure } from "../../failure/failure.ts"
import { upstreamsOf } from "../../store/catalogue.ts"
import type { ModelChange, ModelStore } from "../../store/operator/models.ts"
import { ID } from "../dashboard/page.ts"
import { type Authenticate, operatorBy } from "../dashboard/session.ts"
import { refused } from "../route.ts"
import { exactly, field, flag, listOf, micro as microShape, oneOf, orNull, text } from "../shapes.ts"
import {
  chainProblem,
  jumpJson,
  jumpProblem,
  modelJson,
  modelShape,
  passProblem,
  priceJson,
  rateNames,
  stepTo,
} from "./model-json.ts"

export interface ModelsDeps {
  readonly models: ModelStore
  readonly authenticate: Authenticate
  readonly now: () => number
  /** Whether a provider has a key. */
  readonly isConfigured: (provider: string) => boolean
  readonly refreshCatalogue: () => Promise<void>
}

/** So long before a price begins, every process knows of it. */
export const LEAD_MS = 3_000
/** And so long before, none may sell by it yet, whatever it has missed. */
const SAFE_MS = 30_000

const Text = Type.RegExp(/^(?=.*\S)[^\p{Cc}\p{Cs}]{1,100}$/u, {
  description: field("a string of 1 to 100 characters on one line", "teks 1 sampai 100 karakter dalam satu baris"),
})
const Rate = Type.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: field(
    "an integer of micro-rupiah for one token, 0 or more",
    "bilangan bulat mikro-rupiah untuk satu token, 0 atau lebih",
  ),
})
export const Time = Type.RegExp(/^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d/, {
  description: field("an RFC 3339 time", "waktu RFC 3339"),
})
export const ModelId = Type.String({
  minLength: 1,
  maxLength: 128,
  description: field("the id of a model", "id sebuah model"),
})
const FieldName = Type.String({
  pattern: FIELD_NAME,
  description: field("a name of letters, digits and _, at most 64", "nama dari huruf, angka, dan _, paling banyak 64"),
})

const ChangeBody = exactly({
  display_name: Type.Optional(Text),
  tier: Type.Optional(Text),
  max_concurrency: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 2_147_483_647,
      description: field("an integer from 1 to 2,147,483,647", "bilangan bulat dari 1 sampai 2.147.483.647"),
    }),
  ),
  fallback: Type.Optional(
    Type.Array(ModelId, {
      maxItems: 10,
      description: field("a list of at most 10 ids of models", "daftar paling banyak 10 id model"),
    }),
  ),
  pass: Type.Optional(
    Type.Array(FieldName, {
      maxItems: 50,
      uniqueItems: true,
      description: field("a list of at most 50 names of fields", "daftar paling banyak 50 nama field"),
    }),
  ),
})
export const ConfirmJump = Type.Optional(Type.Boolean({ description: field("true or false", "true atau false") }))
const PriceBody = exactly({
  input_micro: Rate,
  output_micro: Rate,
  cache_read_micro: Rate,
  cache_write_micro: Rate,
  effective_at: Type.Optional(Time),
  confirm_jump: ConfirmJump,
})

export const DryRun = exactly({
  dry_run: Type.Optional(
    Type.Boolean({
      description: field(
        "true or false; true checks the change without making it",
        "true atau false; true memeriksa perubahan tanpa membuatnya",
      ),
    }),
  ),
})
/** Of the change's own shape; null where there was or is nothing. */
const State = orNull(Type.Record(Type.String(), Type.Unknown()))
export const Changed = Type.Object({ dry_run: flag, model: text, before: State, after: State })
export const Jumps = Type.Array(
  Type.Object({ name: oneOf(rateNames), from: microShape, to: microShape, factor: orNull(Type.Number()) }),
  { description: field("The rates that change by more than twice.", "Tarif yang berubah lebih dari dua kali lipat.") },
)
const Priced = Type.Intersect([Changed, Type.Object({ jumps: Jumps })])

interface Change {
  readonly before: Readonly<Record<string, unknown>> | null
  readonly after: Readonly<Record<string, unknown>> | null
}

export const operatorModelsController = (deps: ModelsDeps) => {
  const { models, authenticate, now } = deps
  const operators = operatorBy(authenticate)
  return new Elysia({ name: "operator/models" })
    .get(
      ...operators(
        "/operator/models",
        {
          tag: "Operator",
          role: "support",
          summary: {
            en: "The catalogue with all its prices, retired models too",
            id: "Katalog dengan semua harganya, termasuk model yang sudah berhenti",
          },
          answer: listOf(modelShape),
        },
        async () => {
          const [all, prices] = await Promise.all([models.list(), models.prices()])
          return {
            data: all.map((model) =>
              modelJson(
                model,
                prices.filter((price) => price.model === model.model),
                { now: now(), configured: upstreamsOf(model).some(({ provider }) => deps.isConfigured(provider)) },
              ),
            ),
          }
        },
      ),
    )
    .patch(
      ...operators(
        "/operator/models/:model",
        {
          tag: "Operator",
          role: "finance",
          summary: { en: "Set what is given of a model", id: "Atur yang disebut dari sebuah model" },
          query: DryRun,
          body: ChangeBody,
          answer: Changed,
        },
        async ({ params, query, body, operator }) => {
          const place = await find(models, params.model)
          if (place instanceof Failure) return place
          const { model, all } = place
          const problem =
            (body.fallback && chainProblem(model, body.fallback, all)) ?? (body.pass && passProblem(body.pass))
          if (problem !== undefined) return problem
          const change = changeOf(body)
          const before = Object.fromEntries(
            Object.keys(change).map((name) => [name, { ...model }[name as keyof ModelChange]]),
          )
          return await make(deps, query, { model: model.model, before, after: { ...change } }, () =>
            models.change(model.model, change, operator.act),
          )
        },
      ),
    )
    .post(
      ...operators(
        "/operator/models/:model/prices",
        {
          tag: "Operator",
          role: "finance",
          summary: { en: "Schedule a price", id: "Jadwalkan harga" },
          description: {
            en: "It begins at `effective_at`, three seconds from now at the soonest; calls admitted before keep theirs. A rate that changes by more than twice needs `confirm_jump`. The answer is 201 when the price is made, and 200 to a dry run.",
            id: "Mulai pada `effective_at`, paling cepat tiga detik lagi; panggilan yang diterima sebelumnya memakai harga lama. Tarif yang berubah lebih dari dua kali lipat memerlukan `confirm_jump`. Jawabannya 201 jika harga dibuat, dan 200 untuk percobaan dengan `dry_run`.",
          },
          query: DryRun,
          body: PriceBody,
          answer: Priced,
          alsoStatus: 201,
        },
        async ({ params, query, body, operator, set }) => {
          const effectiveAt = beginning(body.effective_at, now())
          if (effectiveAt instanceof Failure) return effectiveAt
          const place = await find(models, params.model)
          if (place instanceof Failure) return place
          const { model } = place.model
          const versions = (await models.prices()).filter((price) => price.model === model)
          const rates = ratesOf(body)
          const step = stepTo(rates, effectiveAt, versions)
          if (step.jumps.length > 0 && body.confirm_jump !== true && query.dry_run !== true)
            return jumpProblem(step.jumps)
          const before = step.from === undefined ? null : priceJson(step.from)
          const priced = (id: bigint | undefined) => priceJson({ id, rates, effectiveAt: effectiveAt.getTime() })
          let id: bigint | undefined
          const change = { model, before, after: priced(undefined), jumps: step.jumps.map(jumpJson) }
          const answer = await make(deps, query, change, async () => {
            id = await models.schedule({ model, rates, effectiveAt, before }, operator.act)
            return id === undefined
              ? refused("effective_at", "another time than that of a price that is there")
              : undefined
          })
          if (id === undefined || answer instanceof Failure) return answer
          set.status = 201
          return { ...answer, after: priced(id) }
        },
      ),
    )
    .delete(
      ...operators(
        "/operator/models/:model/prices/:id",
        {
          tag: "Operator",
          role: "finance",
          summary: { en: "Delete a price that is still to come", id: "Hapus harga yang belum berlaku" },
          query: DryRun,
          answer: Changed,
        },
        async ({ params, query, operator }) => {
          const { model } = params
          const versions = (await models.prices()).filter((price) => price.model === model)
          const version = ID.test(params.id) ? versions.find(({ id }) => id === BigInt(params.id)) : undefined
          if (version === undefined) return new Failure("resource.not_found")
          const safeAt = new Date(now() + SAFE_MS)
          const inUse = new Failure("request.invalid", {
            message: `A price that is in force, or will be within ${SAFE_MS / 1000} seconds, is not deleted; schedule another.`,
          })
          if (version.effectiveAt <= safeAt.getTime()) return inUse
          return await make(deps, query, { model, before: priceJson(version), after: null }, async () =>
            (await models.unschedule(model, version.id, safeAt, operator.act)) ? undefined : inUse,
          )
        },
      ),
    )
}

export async function find(models: ModelStore, id: string) {
  const all = await models.list()
  const model = all.find((one) => one.model === id)
  return model === undefined ? new Failure("resource.not_found") : { model, all }
}

/** Makes the change unless it is a dry run, and answers with the state before and after. */
export async function make<Answer extends Change>(
  { refreshCatalogue }: ModelsDeps,
  { dry_run = false }: Static<typeof DryRun>,
  answer: Answer,
  change: () => Promise<void | Failure>,
) {
  if (!dry_run) {
    const failure = await change()
    if (failure instanceof Failure) return failure
    await refreshCatalogue()
  }
  return { dry_run, ...answer }
}

/** Only what was sent: an absent field stays as it is. */
const changeOf = (body: ModelChange): ModelChange => ({
  ...(body.display_name !== undefined && { display_name: body.display_name }),
  ...(body.tier !== undefined && { tier: body.tier }),
  ...(body.max_concurrency !== undefined && { max_concurrency: body.max_concurrency }),
  ...(body.fallback !== undefined && { fallback: body.fallback }),
  ...(body.pass !== undefined && { pass: body.pass }),
})

const ratesOf = (body: Static<typeof PriceBody>) => ({
  input: micro(BigInt(body.input_micro)),
  output: micro(BigInt(body.output_micro)),
  cacheRead: micro(BigInt(body.cache_read_micro)),
  cacheWrite: micro(BigInt(body.cache_write_micro)),
})

/** A price that is to hold at once begins when every process knows it. A form's `now` is a moment old when it arrives. */
function beginning(asked: string | undefined, nowMs: number): Date | Failure {
  const begins = asked === undefined ? new Date(nowMs) : instant("effective_at", asked)
  if (begins instanceof Failure) return begins
  if (begins.getTime() < nowMs - 60_000) return refused("effective_at", "a time that is still to come")
  return new Date(Math.max(begins.getTime(), nowMs + LEAD_MS))
}

/** Within the years that Postgres and JSON read alike. */
export function instant(name: string, text: string): Date | Failure {
  try {
    const ms = Temporal.Instant.from(text).epochMilliseconds
    return ms < Date.UTC(9999, 11, 31) ? new Date(ms) : refused(name, "a time before the year 10000")
  } catch {
    return refused(name, "an RFC 3339 time such as 2027-01-31T00:00:00Z")
  }
}
