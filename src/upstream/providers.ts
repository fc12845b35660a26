/** The backends that calls can go to: a provider and the key that the operator has there. */
import type { Provider } from "../catalogue/model.ts"

export interface Backend {
  readonly provider: Provider
  readonly apiKey: string
}

/** Providers by id; those whose key is not set are left out, and so their models are unconfigured. */
export function configuredBackends(
  providers: readonly Provider[],
  secret: (name: string) => string | undefined,
): ReadonlyMap<string, Backend> {
  const backends = new Map<string, Backend>()
  for (const provider of providers) {
    const apiKey = secret(provider.apiKeyEnv)
    if (apiKey !== undefined) backends.set(provider.id, { provider, apiKey })
  }
  return backends
}
