/**
 * `loket doctor`: what is wrong with the configuration and its surroundings, and what to do about it. Changes nothing.
 * What it asks the providers is here, what it looks at otherwise in the files beside.
 */
import type { Provider } from "../../catalogue/model.ts"
import type { CatalogueFile } from "../../catalogue/schema.ts"
import { readConfig } from "../../config.ts"
import { isLoopback } from "../../http/dashboard/session.ts"
import {
  type Backend,
  type Backends,
  configuredBackends,
  type EnvironmentLookup,
  missingSecretOf,
  secretSourceName,
  secretSourceNames,
  type UnsetCredential,
  unsetCredentials,
  unsetText,
  wrongSecrets,
} from "../../upstream/providers.ts"
import {
  clockFinding,
  codeOf,
  command,
  type Finding,
  look,
  messageOf,
  ok,
  printJson,
  progress,
  readSeedFiles,
  wrong,
} from "../command.ts"
import { database } from "./database.ts"
import { files, machine, ports } from "./machine.ts"
import { redis, traces } from "./neighbours.ts"
import { legal, mail, misspelt, passkeys, payments, searching, settings, trialCredit, unreadable } from "./settings.ts"

export const doctorCommand = () =>
  command("doctor", {
    summary: "Say what is wrong with the configuration and its surroundings, and what to do",
    details:
      "Looks at the environment, the seed files, providers and their keys (by a call that costs nothing), the database with its settings and privileges, poolers, Redis, clocks, disk, ports and limits. Changes nothing. Exits with 1 when something is wrong.",
    examples: [
      ["doctor", "with the environment and as the user of the gateway"],
      ["doctor --json", "for machines"],
    ],
  })
    .option("--json", "print JSON")
    .action(async ({ json }) => {
      const places = await progress("looking", diagnose(process.env))
      const all = Object.values(places).flat()
      if (json === true) printJson(places)
      else print(places)
      if (all.some(({ state }) => state === "wrong")) process.exitCode = 1
    })

type Places = Readonly<Record<string, readonly Finding[]>>

async function diagnose(environment: Readonly<Record<string, string | undefined>>): Promise<Places> {
  const config = readConfig(environment)
  // The rest would be looked for where it is not.
  if (Array.isArray(config)) return { configuration: [...unreadable(config), ...misspelt(environment, [])] }
  const seeds = await readSeedFiles(config)
  const read = !Array.isArray(seeds)
  const checks: Record<string, Promise<readonly Finding[]>> = {
    configuration: Promise.resolve([...misspelt(environment, read ? seeds.providers : []), ...settings(config)]),
    "seed files": Promise.resolve(
      read
        ? [ok("the catalogue and the providers can be read"), ...seeds.passedOver.map(passedOver)]
        : seeds.map((problem) => wrong(problem, "correct the file at CATALOGUE_FILE or PROVIDERS_FILE")),
    ),
    providers: read ? providerFindings(seeds, config.secret) : Promise.resolve([]),
    database: database(config),
    files: Promise.resolve().then(() => files(config)),
    machine: Promise.all([ports(config), machine(config)]).then((found) => found.flat()),
    payments: payments(config),
    mail: mail(config),
    passkeys: Promise.resolve(passkeys(config)),
    "trial credit": Promise.resolve(trialCredit(config)),
    "legal texts": legal(config),
    search: searching(config),
    redis: redis(config),
    traces: traces(config, environment),
  }
  const found = await Promise.all(
    Object.entries(checks).map(async ([place, check]): Promise<[string, readonly Finding[]]> => {
      return [place, await check.catch(notLookedAt)]
    }),
  )
  return Object.fromEntries(found.filter(([, findings]) => findings.length > 0))
}

const notLookedAt = (error: unknown) => [wrong(`not looked at: ${messageOf(error)}`, "report this")]
const passedOver = (problem: string): Finding =>
  look(`passed over: ${problem}`, "remove it, or correct its name: this version does not know it")

const marks = { ok: "ok    ", look: "look  ", wrong: "WRONG " }

function print(places: Places): void {
  for (const [place, findings] of Object.entries(places)) {
    console.log(place)
    for (const finding of findings) {
      console.log(`  ${marks[finding.state]} ${finding.what}`)
      if (finding.state !== "ok") console.log(`         → ${finding.remedy}`)
    }
  }
  const count = (state: Finding["state"]) =>
    Object.values(places)
      .flat()
      .filter((each) => each.state === state).length
  console.log(`\n${count("wrong")} wrong, ${count("look")} to look at, ${count("ok")} in order`)
}

const ANSWER_MS = 8_000

async function providerFindings(
  { catalogueFile, providers }: { readonly catalogueFile: CatalogueFile; readonly providers: readonly Provider[] },
  secret: (name: string) => string | undefined,
): Promise<readonly Finding[]> {
  const backends = configuredBackends(providers, secret)
  const notSent = wrongSecrets(providers, secret)
  if (notSent.length > 0)
    return notSent.map((what) => wrong(what, "copy it anew from the provider, by itself on its line"))
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
  return [
    ...unsetCredentials(providers, secret).map(leftOut),
    ...found.flat(),
    ...limitNames(providers, catalogueFile.models),
  ]
}

const MOST_NAMED = 20

const isOpenAi = ({ baseUrl }: Provider): boolean => /(?:^|\.)openai\.(?:azure\.)?com$/.test(new URL(baseUrl).hostname)

/** Where a client writes the newer name of the answer limit, both travel, unless the model's `strip` has one of them. */
function limitNames(providers: readonly Provider[], models: CatalogueFile["models"]): Finding[] {
  const ids = new Set(providers.filter(isOpenAi).map(({ id }) => id))
  const found = models.filter(
    ({ upstreams, strip }) =>
      upstreams.some(({ provider, format }) => format === "chat" && ids.has(provider)) &&
      !strip.some((name) => name === "max_tokens" || name === "max_completion_tokens"),
  )
  if (found.length === 0) return []
  const named = found.slice(0, MOST_NAMED).map(({ model }) => model)
  const others = found.length > MOST_NAMED ? [`${found.length - MOST_NAMED} more`] : []
  return [
    look(
      `${[...named, ...others].join(", ")}: OpenAI's own chat refuses max_completion_tokens beside max_tokens`,
      "put max_tokens in the strip of each in the catalogue",
    ),
  ]
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
        "write the key bare: docker and podman keep quotes of a file of variables as part of the value",
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
