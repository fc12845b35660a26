/** The backends that calls can go to: a provider and the key that the operator has there. */
import type { Provider } from "../catalogue/model.ts"
import type { SigningKey } from "./bedrock-signature.ts"

export interface Backend {
  readonly provider: Provider
  /** For a provider whose calls are signed: the access key's id. */
  readonly apiKey: string
  /** What its calls are signed with, where they are. */
  readonly signing?: SigningKey | undefined
}

/** Providers by id; those whose key is not set are left out, and so their models are unconfigured. */
export function configuredBackends(
  providers: readonly Provider[],
  secret: (name: string) => string | undefined,
): ReadonlyMap<string, Backend> {
  const backends = new Map<string, Backend>()
  for (const provider of providers) {
    const apiKey = secret(provider.apiKeyEnv)
    if (apiKey === undefined) continue
    const signing = signingKey(provider, apiKey, secret)
    if (signing !== "unset") backends.set(provider.id, { provider, apiKey, signing })
  }
  return backends
}

/** A session token belongs to temporary credentials only, so it may be unset where it is named. */
function signingKey(
  { signing }: Provider,
  accessKeyId: string,
  secret: (name: string) => string | undefined,
): SigningKey | undefined | "unset" {
  if (signing === undefined) return undefined
  const secretAccessKey = secret(signing.secretKeyEnv)
  if (secretAccessKey === undefined) return "unset"
  const sessionToken = signing.sessionTokenEnv === undefined ? undefined : secret(signing.sessionTokenEnv)
  return { accessKeyId, secretAccessKey, sessionToken, region: signing.region }
}
