/** The providers: which have a key, whether they are reached, and whether the key is taken, by a call that costs nothing. */
import type { Provider } from "../../catalogue/model.ts"
import type { CatalogueFile } from "../../catalogue/schema.ts"
import { isLoopback } from "../../http/dashboard/session.ts"
import {
  type Backend,
  type Backends,
  configuredBackends,
  missingSecretOf,
  secretSourceName,
  secretSourceNames,
  type UnsetCredential,
  unsetCredentials,
  unsetText,
  type EnvironmentLookup,
} from "../../upstream/providers.ts"
import { clockFinding, codeOf, type Finding, look, messageOf, ok, wrong } from "./finding.ts"

const ANSWER_MS = 8_000

export async function providerFindings(
  { catalogueFile, providers }: { readonly catalogueFile: CatalogueFile; readonly providers: readonly Provider[] },
  secret: (name: string) => string | undefined,
): Promise<readonly Finding[]> {
  const backends = configuredBackends(providers, secret)
  const names = secretSourceNames(providers).join(", ")
  if (backends.size === 0)
    return [wrong("no provider is configured: `loket start` refuses to run", `set at least one of ${names}`)]
  const found = await Promise.all(
    providers.map(async (provider) => {
      const upstreams = catalogueFile.models.flatMap((model) => model.upstreams)
      const usedBy = upstreams.filter((upstream) => upstream.provider === provider.id)
      const configured = backends.get(provider.id)
      if (configured === undefined) return withoutKey(provider, catalogueFile, { backends, secret })
      const takesApiKeyHeader = usedBy.some(({ format }) => format === "messages")
      const credentials = configured.map(async (backend) => [
        ...written(backend),
        ...(await asked(backend, takesApiKeyHeader)),
      ])
      return (await Promise.all(credentials)).flat()
    }),
  )
  return [...unsetCredentials(providers, secret).map(leftOut), ...found.flat()]
}

const leftOut = (unset: UnsetCredential): Finding =>
  look(unsetText(unset), `give ${secretSourceName(unset.missing)} its value, or take the key out of the providers file`)

/** Models that have other backends are sold all the same. */
function withoutKey(
  { id, credentials }: Provider,
  { models }: CatalogueFile,
  { backends, secret }: { readonly backends: Backends; readonly secret: EnvironmentLookup },
): Finding[] {
  const own = models.filter(({ upstreams }) => upstreams.some(({ provider }) => provider === id))
  const unsold = own.filter(({ upstreams }) => !upstreams.some(({ provider }) => backends.has(provider)))
  const missing = secretSourceName(missingSecretOf(credentials[0], secret) ?? credentials[0].key)
  if (own.length === 0) return []
  return [
    unsold.length === 0
      ? look(`${missing} is unset: the provider ${id} is asked for none of its ${own.length} models`, `set ${missing}`)
      : look(
          `${missing} is unset: ${unsold.length} models of the provider ${id} answer 503`,
          `set ${missing}, or retire the models`,
        ),
  ]
}

/** What can be seen of a key and an address without asking anybody. */
function written({ provider, credential, apiKey }: Backend): Finding[] {
  const found: Finding[] = []
  if (/^["'\s]|["'\s]$/.test(apiKey))
    found.push(
      wrong(
        `${secretSourceName(credential.key)} begins or ends with white space or a quote`,
        "write the key bare: a file for systemd or docker keeps quotes as part of the value",
      ),
    )
  const { protocol, hostname } = new URL(provider.baseUrl)
  if (protocol === "http:" && !isLoopback(hostname))
    found.push(
      wrong(
        `the key of ${provider.id} travels to ${hostname} unencrypted`,
        "let its base_url in the providers file begin with https://",
      ),
    )
  return found
}

async function asked(
  { provider, credential, apiKey, signing }: Backend,
  takesApiKeyHeader: boolean,
): Promise<Finding[]> {
  const { baseUrl, headers: own } = provider
  const id = provider.credentials.length === 1 ? provider.id : `${provider.id}/${credential.name}`
  const { host } = new URL(baseUrl)
  const key: Record<string, string> = takesApiKeyHeader
    ? { "x-api-key": apiKey, "anthropic-version": "2023-06-01" }
    : { Authorization: `Bearer ${apiKey}` }
  let answer: Response
  try {
    answer = await fetch(`${baseUrl}/v1/models`, {
      headers: signing === undefined ? { ...key, ...own } : own,
      redirect: "manual",
      signal: AbortSignal.timeout(ANSWER_MS),
    })
    await answer.body?.cancel()
  } catch (error) {
    return [notReached(id, host, error)]
  }
  const date = Date.parse(answer.headers.get("date") ?? "")
  const clock = Number.isNaN(date)
    ? []
    : [clockFinding(host, (date - Date.now()) / 1_000)].filter(({ state }) => state !== "ok")
  return [ofStatus(answer.status), ...clock]

  function ofStatus(status: number): Finding {
    if (signing !== undefined)
      return ok(`${id}: ${host} is reached; a signed call that is free is not known, so its keys are not tried`)
    if (status === 401 || status === 403)
      return wrong(
        `${id}: ${host} refuses the key (${status})`,
        `set ${secretSourceName(credential.key)} to a key that works there`,
      )
    if (status === 402) return wrong(`${id}: ${host} says that nothing is paid for (402)`, "top up at the provider")
    if (status === 429)
      return look(`${id}: ${host} throttles the key (429)`, "look at the key's limits at the provider")
    if (status >= 500)
      return look(`${id}: ${host} answers ${status}`, "look at the provider's status page, and try again")
    if (status >= 300 && status < 400)
      return wrong(`${id}: ${host} sends elsewhere (${status})`, "write the final address as its base_url")
    return ok(
      status < 300
        ? `${id}: ${host} takes the key`
        : `${id}: ${host} is reached; it has no list of models (${status}), so its key is not tried`,
    )
  }
}

function notReached(id: string, host: string, error: unknown): Finding {
  const code = codeOf(error) ?? ""
  const what = `${id}: ${host} is not reached: ${messageOf(error)}`
  if (/ENOTFOUND|EAI_AGAIN|DNS|FailedToOpenSocket|ConnectionRefused|ECONNREFUSED/i.test(code))
    return wrong(
      what,
      "check base_url in the providers file, the name server, and that this machine may connect outwards",
    )
  if (/CERT|SSL|TLS|SELF_SIGNED/i.test(code))
    return wrong(what, "its certificate is not trusted here: install ca-certificates, or set NODE_EXTRA_CA_CERTS")
  return wrong(what, "check base_url, and that a firewall or HTTPS_PROXY lets this machine connect outwards")
}
