/** `/operator/backends`: how each provider's models have done in the last minutes, as this process saw it. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import type { Model } from "../../catalogue/model.ts"
import { type BackendHealth, type BackendView, failureClasses, HEALTH_MINUTES } from "../../gateway/backend-health.ts"
import { type Authenticate, operatorBy } from "../dashboard/session.ts"
import { described, flag, integer, oneOf, orNull, text, time } from "../shapes.ts"

export interface BackendsDeps {
  readonly authenticate: Authenticate
  readonly health: BackendHealth
  /** On sale. */
  readonly models: () => readonly Model[]
  readonly isConfigured: (provider: string) => boolean
  readonly processId: string
}

/** What is no fault of the backend's does not count as a failure: a request that it did not take. */
const faults = failureClasses.filter((name) => name !== "refused_request")

const LastFailure = orNull(Type.Object({ at: time, class: oneOf(failureClasses), status: orNull(integer) }))
const ModelHealth = Type.Object({
  model: text,
  calls: integer,
  answered: integer,
  failures: integer,
  by_class: Type.Record(Type.String(), Type.Integer()),
  first_token_p50_ms: orNull(integer),
  first_token_p95_ms: orNull(integer),
  last_failure: LastFailure,
})
const BackendHealthShape = Type.Object({
  process_id: text,
  minutes: integer,
  data: Type.Array(
    Type.Object({
      provider: text,
      configured: flag,
      calls: described(integer, "Tries."),
      failures: described(integer, "Without requests that the backend did not take."),
      rate_limited: integer,
      last_failure: LastFailure,
      models: Type.Array(ModelHealth),
    }),
  ),
})

export const backendsController = ({ authenticate, health, models, isConfigured, processId }: BackendsDeps) =>
  new Elysia({ name: "operator/backends" }).get(
    ...operatorBy(authenticate)(
      "/operator/backends",
      {
        tag: "Operator",
        summary: "How backends did in the last minutes, as the process that answers saw it",
        answer: BackendHealthShape,
      },
      async () => {
        const views = health.views()
        const sold = models().flatMap(({ id, upstreams }) => upstreams.map(({ provider }) => [provider, id] as const))
        const seen = views.map(({ provider, model }) => [provider, model] as const)
        const providers = [...new Set([...sold, ...seen].map(([provider]) => provider))].sort()
        return {
          process_id: processId,
          minutes: HEALTH_MINUTES,
          data: providers.map((provider) =>
            providerJson(
              provider,
              views.filter((view) => view.provider === provider),
              isConfigured(provider),
            ),
          ),
        }
      },
    ),
  )

function providerJson(provider: string, views: readonly BackendView[], configured: boolean) {
  const sum = (of: (view: BackendView) => number) => views.reduce((total, view) => total + of(view), 0)
  const last = views.flatMap(({ lastFailure }) => lastFailure ?? []).sort((a, b) => b.at - a.at)
  return {
    provider,
    configured,
    calls: sum(({ calls }) => calls),
    failures: sum(faulty),
    rate_limited: sum(({ failures }) => failures.rate_limited),
    last_failure: failureJson(last[0]),
    models: views.map(modelJson).sort((a, b) => (a.model < b.model ? -1 : 1)),
  }
}

const faulty = ({ failures }: BackendView): number => faults.reduce((sum, name) => sum + failures[name], 0)

const modelJson = (view: BackendView) => ({
  model: view.model,
  calls: view.calls,
  answered: view.answered,
  failures: faulty(view),
  by_class: view.failures,
  first_token_p50_ms: view.p50Ms ?? null,
  first_token_p95_ms: view.p95Ms ?? null,
  last_failure: failureJson(view.lastFailure),
})

const failureJson = (failure: BackendView["lastFailure"]) =>
  failure === undefined
    ? null
    : { at: new Date(failure.at).toISOString(), class: failure.class, status: failure.status ?? null }
