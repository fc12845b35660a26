/** The backends that calls can go to: a provider and one of the operator's credentials there. */
import { readFileSync } from "node:fs"
import type { Credential, Model, Provider, SecretSource, Upstream } from "../catalogue/model.ts"
import type { SigningKey } from "./bedrock.ts"

export interface Backend {
  readonly provider: Provider
  readonly credential: Credential
  /** For a provider whose calls are signed: the access key's id. */
  readonly apiKey: string
  /** The signing key, for a provider whose calls are signed. */
  readonly signing?: SigningKey | undefined
}

/** A member of a model's pool: one backend, called with one credential. */
export interface Member {
  /** `<provider>/<credential>/<backend model>`, and the format behind it where two of a pool differ in that alone. */
  readonly id: string
  readonly upstream: Upstream
  readonly backend: Backend
  /** Relative to the others of its priority. 0: it gets no calls that another member can take. */
  readonly weight: number
}

/** By the provider's id; each has at least one. */
export type Backends = ReadonlyMap<string, readonly Backend[]>

export type EnvironmentLookup = (name: string) => string | undefined

/** Providers without any configured credential are left out, so their models are unconfigured. */
export function configuredBackends(providers: readonly Provider[], variables: EnvironmentLookup): Backends {
  const backends = new Map<string, readonly Backend[]>()
  for (const provider of providers) {
    const configured = provider.credentials.flatMap((credential) => backendOf(provider, credential, variables) ?? [])
    if (configured.length > 0) backends.set(provider.id, configured)
  }
  return backends
}

/** A credential without a value, of a provider with another credential that has one. */
export interface UnsetCredential {
  readonly provider: Provider
  readonly credential: Credential
  readonly missing: SecretSource
}

/** Credentials without a value at configured providers: lines of the configuration without effect. */
export const unsetCredentials = (providers: readonly Provider[], variables: EnvironmentLookup): UnsetCredential[] =>
  providers.flatMap((provider) => {
    const unset = provider.credentials.flatMap((credential) => {
      const missing = missingSecretOf(credential, variables)
      return missing === undefined ? [] : { provider, credential, missing }
    })
    return unset.length < provider.credentials.length ? unset : []
  })

export const unsetText = ({ provider, credential, missing }: UnsetCredential): string =>
  `provider ${provider.id}: the key ${credential.name} has no value: ${secretSourceName(missing)} ${"env" in missing ? "is unset" : "holds none, or cannot be read"}`

/** The first secret of a credential without a value. Undefined where all have one. A session token may be unset. */
export const missingSecretOf = ({ key, signing }: Credential, variables: EnvironmentLookup): SecretSource | undefined =>
  [key, ...(signing === undefined ? [] : [signing.secretKey])].find((from) => valueOf(from, variables) === undefined)

/** What a header cannot carry: each call with it would fail. */
const NOT_SENT = /[^\t\x20-\x7e\x80-\xff]/

/** A sentence for each variable of a secret that can be sent to no backend. What is in it is not told. */
export const wrongSecrets = (providers: readonly Provider[], variables: EnvironmentLookup): string[] =>
  providers.flatMap(({ credentials }) =>
    credentials.flatMap(({ key, signing }) => {
      const sources = [key, signing?.secretKey, signing?.sessionToken]
      const names = sources.flatMap((source) => (source !== undefined && "env" in source ? source.env : []))
      const wrong = names.filter((name) => NOT_SENT.test(bare(variables(name) ?? "")))
      return wrong.map((name) => `${name} has a character that no key has, such as a line end or a typographic dash`)
    }),
  )

/** The name of a secret's source, for messages. */
export const secretSourceName = (source: SecretSource): string => ("env" in source ? source.env : source.file)

/** The sources of which one would be enough. */
export const secretSourceNames = (providers: readonly Provider[]): string[] =>
  providers.flatMap(({ credentials }) => credentials.map(({ key }) => secretSourceName(key)))

/** The members that a model has with the credentials that are configured, in the order of the catalogue and of the providers file. */
export function membersOf({ upstreams }: Pick<Model, "upstreams">, backends: Backends): readonly Member[] {
  const members = upstreams.flatMap((upstream) =>
    (backends.get(upstream.provider) ?? []).map((backend) => ({
      id: `${backend.provider.id}/${backend.credential.name}/${upstream.model}`,
      upstream,
      backend,
      weight: upstream.weight * backend.credential.weight,
    })),
  )
  const isShared = (id: string) => members.filter((other) => other.id === id).length > 1
  return members.map((member) =>
    isShared(member.id) ? { ...member, id: `${member.id}/${member.upstream.format}` } : member,
  )
}

/** A session token belongs to temporary credentials only, so it may be unset where it is named. */
function backendOf(provider: Provider, credential: Credential, variables: EnvironmentLookup): Backend | undefined {
  const apiKey = valueOf(credential.key, variables)
  if (apiKey === undefined) return undefined
  if (provider.signing === undefined || credential.signing === undefined) return { provider, credential, apiKey }
  const { secretKey, sessionToken: token } = credential.signing
  const secretAccessKey = valueOf(secretKey, variables)
  if (secretAccessKey === undefined) return undefined
  const sessionToken = token === undefined ? undefined : valueOf(token, variables)
  const signing = { accessKeyId: apiKey, secretAccessKey, sessionToken, region: provider.signing.region }
  return { provider, credential, apiKey, signing }
}

const LONGEST_SECRET = 65_536

/** White space around a secret is no part of it. No header has it, but a signature would be made with it. */
const bare = (text: string): string => text.replaceAll(/^[\t\n\r ]+|[\t\n\r ]+$/g, "")

/** A text that is empty, unreadable or cannot be sent is no value. */
function valueOf(source: SecretSource, variables: EnvironmentLookup): string | undefined {
  if ("env" in source) return bare(variables(source.env) ?? "") || undefined
  try {
    const text = bare(readFileSync(source.file, "utf8"))
    return text === "" || text.length > LONGEST_SECRET || /\p{Cc}/u.test(text) || NOT_SENT.test(text) ? undefined : text
  } catch {
    return undefined
  }
}
