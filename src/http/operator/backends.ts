/** `/operator/backends`: how each provider's models have done in the last minutes, as this process saw it. */
import { Elysia } from "elysia"
import type { Model } from "../../catalogue/model.ts"
import { Failure } from "../../failure/failure.ts"
import { type BackendHealth, type BackendView, failureClasses, HEALTH_MINUTES } from "../../gateway/backend-health.ts"
import type { OperatorGate } from "./gate.ts"

export interface BackendsDeps {
  readonly gate: OperatorGate
  readonly health: BackendHealth
  /** On sale. */
  readonly models: () => readonly Model[]
  readonly isConfigured: (provider: string) => boolean
  readonly processId: string
}

/** What is no fault of the backend's does not count as a failure: a request that it did not take. */
const faults = failureClasses.filter((name) => name !== "refused_request")

export const backendsController = ({ gate, health, models, isConfigured, processId }: BackendsDeps) =>
  new Elysia({ name: "operator/backends" }).get("/operator/backends", async ({ request }) => {
    const operator = await gate(request)
    if (operator instanceof Failure) return operator
    const views = health.views()
    const sold = models().map(({ id, upstream }) => [upstream.provider, id] as const)
    const seen = views.map(({ provider, model }) => [provider, model] as const)
    const providers = [...new Set([...sold, ...seen].map(([provider]) => provider))].sort()
    return {
      process_id: processId,
      minutes: HEALTH_MINUTES,
      data: providers.map((provider) => {
        const ofIt = views.filter((view) => view.provider === provider)
        const sum = (of: (view: BackendView) => number) => ofIt.reduce((total, view) => total + of(view), 0)
        const last = ofIt.flatMap(({ lastFailure }) => lastFailure ?? []).sort((a, b) => b.at - a.at)
        return {
          provider,
          configured: isConfigured(provider),
          calls: sum(({ calls }) => calls),
          failures: sum(faulty),
          rate_limited: sum(({ failures }) => failures.rate_limited),
          last_failure: failureJson(last[0]),
          models: ofIt.map(modelJson).sort((a, b) => (a.model < b.model ? -1 : 1)),
        }
      }),
    }
  })

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
