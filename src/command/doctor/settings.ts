/** The environment: values that are wrong, that contradict each other, or that somebody meant otherwise. */
import { relyingParty } from "../../accounts/passkeys.ts"
import { type Config, variableNames } from "../../config.ts"
import { isLoopback } from "../../http/dashboard/session.ts"
import type { Provider } from "../../catalogue/model.ts"
import { LONGEST_BYTES, readLegalTexts } from "../../legal/texts.ts"
import { type Finding, look, messageOf, ok, wrong } from "../command.ts"

/** One line for each variable that cannot be read, as a start would say. */
export const unreadable = (problems: readonly string[]): readonly Finding[] =>
  problems.map((problem) => wrong(problem, "set the variable to an allowed value, or unset it for its default"))

/** Of names that are alike, one was likely meant. */
const MAX_TYPOS = 2
const SHORTEST_GUESSED = 8

/** Variables that are set, that nobody reads, and that look like one that is read. */
export function misspelt(environment: Readonly<Record<string, string | undefined>>, providers: readonly Provider[]) {
  const known = [...variableNames, ...providers.flatMap(secretNames)]
  return Object.keys(environment).flatMap((name): Finding[] => {
    if (name.length < SHORTEST_GUESSED || known.includes(name)) return []
    const meant = known.find((each) => each.length >= SHORTEST_GUESSED && distance(name, each) <= MAX_TYPOS)
    return meant === undefined || (environment[meant] ?? "") !== ""
      ? []
      : [look(`${name} is set, and nothing reads it`, `if ${meant} was meant, rename it`)]
  })
}

const secretNames = ({ credentials }: Provider): string[] =>
  credentials
    .flatMap(({ key, signing }) => [key, signing?.secretKey, signing?.sessionToken])
    .flatMap((source) => (source !== undefined && "env" in source ? source.env : []))

/** Levenshtein's. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}

export function settings(config: Config): readonly Finding[] {
  const found = [...listening(config), ...paying(config)]
  return found.length > 0 ? found : [ok("every variable can be read, and none contradicts another")]
}

function listening(config: Config): Finding[] {
  const found: Finding[] = []
  const { HOST, PORT, METRICS_PORT, REUSE_PORT, DATABASE_URL, CLIENT_ADDRESS_HEADER } = config
  if (METRICS_PORT !== undefined && METRICS_PORT === PORT && PORT !== 0)
    found.push(wrong(`METRICS_PORT and PORT are both ${PORT}`, "give METRICS_PORT a port of its own"))
  if (REUSE_PORT && DATABASE_URL === undefined)
    found.push(
      wrong(
        "REUSE_PORT is true, but the embedded database admits one process",
        "set DATABASE_URL to a PostgreSQL server, or unset REUSE_PORT",
      ),
    )
  if (DATABASE_URL === undefined && !config.EMBEDDED_SYNC)
    found.push(
      look(
        "EMBEDDED_SYNC is false: a power cut loses calls and payments that were confirmed",
        "unset it where there is money to lose",
      ),
    )
  if (!isLoopback(HOST)) {
    found.push(
      look(
        `HOST is ${HOST}, so that others reach the gateway by plain HTTP`,
        "put a proxy that ends TLS before it and set HOST=127.0.0.1, or firewall the port",
      ),
    )
    if (METRICS_PORT !== undefined)
      found.push(look(`the metrics on ${HOST}:${METRICS_PORT} are for everybody`, "firewall METRICS_PORT"))
  } else if (CLIENT_ADDRESS_HEADER === undefined) {
    found.push(
      look(
        "CLIENT_ADDRESS_HEADER is unset on a loopback HOST: behind a proxy all people have one address",
        "behind a proxy set it to the header in which the proxy names the client, such as X-Forwarded-For",
      ),
    )
  }
  return found
}

function paying(config: Config): Finding[] {
  const found: Finding[] = []
  const { PAYMENT_PROVIDER, PAYMENT_SIMULATED_SECRET, MIDTRANS_SERVER_KEY: key, MIDTRANS_BASE_URL: base } = config
  if (PAYMENT_SIMULATED_SECRET !== undefined)
    found.push(wrong("PAYMENT_SIMULATED_SECRET is set: anybody can top up without paying", "unset it in production"))
  if (PAYMENT_PROVIDER === "simulated")
    found.push(
      look("PAYMENT_PROVIDER is simulated: nobody can pay", "set PAYMENT_PROVIDER=midtrans and MIDTRANS_SERVER_KEY"),
    )
  else if (key === undefined)
    found.push(
      wrong(
        "MIDTRANS_SERVER_KEY is unset: no charge is made and no payment is credited",
        "set it to the server key that Midtrans shows under Settings, Access Keys",
      ),
    )
  if (PAYMENT_PROVIDER !== "simulated" && (config.SELLER_NAME === undefined || config.SELLER_ADDRESS === undefined))
    found.push(
      look(
        config.SELLER_NAME === undefined
          ? "SELLER_NAME is unset: receipts and statements are drafts without a number"
          : "SELLER_ADDRESS is unset: receipts and statements do not say where the seller is",
        "set SELLER_NAME, SELLER_ADDRESS, and SELLER_NPWP where there is one",
      ),
    )
  if (key !== undefined && key.startsWith("SB-") !== new URL(base).hostname.includes("sandbox"))
    found.push(
      wrong(
        `MIDTRANS_SERVER_KEY is of ${key.startsWith("SB-") ? "the sandbox" : "production"}, and MIDTRANS_BASE_URL is not`,
        "a key that begins with SB- goes with https://api.sandbox.midtrans.com, any other with https://api.midtrans.com",
      ),
    )
  return found
}

const PAYMENTS_MS = 8_000

/** Whether Midtrans takes the key: it is asked about an order that there is none of, which costs nothing. */
export async function payments({ MIDTRANS_SERVER_KEY: key, MIDTRANS_BASE_URL: base }: Config): Promise<Finding[]> {
  if (key === undefined) return []
  const { host } = new URL(base)
  try {
    const answer = await fetch(new URL("/v2/loket-doctor/status", base).href, {
      headers: { accept: "application/json", authorization: `Basic ${Buffer.from(`${key}:`).toString("base64")}` },
      redirect: "manual",
      signal: AbortSignal.timeout(PAYMENTS_MS),
    })
    const body: unknown = await answer.json().catch(() => undefined)
    // Under HTTP 200 too it says in its body what became of a question.
    const said = typeof body === "object" && body !== null && "status_code" in body ? String(body.status_code) : ""
    const status = answer.status === 200 && said !== "" ? said : String(answer.status)
    if (status === "401" || status === "403")
      return [
        wrong(
          `Midtrans: ${host} refuses the key (${status}): no payment is credited`,
          "set MIDTRANS_SERVER_KEY to the server key that Midtrans shows under Settings, Access Keys",
        ),
      ]
    return status === "404" && said === "404"
      ? [ok(`Midtrans: ${host} takes the key`)]
      : [
          look(
            `Midtrans: ${host} answers ${status}`,
            "check MIDTRANS_BASE_URL, look at Midtrans' status page, and try again",
          ),
        ]
  } catch (error) {
    return [
      wrong(
        `Midtrans: ${host} is not reached: ${messageOf(error)}`,
        "check MIDTRANS_BASE_URL, the name server, and that this machine may connect outwards",
      ),
    ]
  }
}

/** Passkeys belong to a domain. */
export function passkeys({ PUBLIC_URL, PORT }: Config): readonly Finding[] {
  const party = relyingParty(PUBLIC_URL, PORT)
  if (party.unavailable !== undefined)
    return [look(party.unavailable, "set PUBLIC_URL to an address of https with a domain name")]
  return PUBLIC_URL === undefined ? [] : [ok(`passkeys belong to ${party.id}`)]
}

/** What a day of trial credit may come to. */
export const trialCredit = ({ TRIAL_CREDIT_RP: amount, TRIAL_CREDITS_PER_DAY: perDay }: Config): readonly Finding[] =>
  amount === 0
    ? []
    : [ok(`trial credit of Rp ${amount} goes to ${perDay} accounts a day at the most, which is Rp ${amount * perDay}`)]

const MAIL_MS = 5_000

/** Whether the mail server takes us; nothing is sent. */
export async function mail({ SMTP_URL, PUBLIC_URL }: Config): Promise<readonly Finding[]> {
  if (SMTP_URL === undefined)
    return [
      look(
        "SMTP_URL is unset: nobody is told of a low balance, and a forgotten password is replaced by `loket account reset-password` alone",
        "set SMTP_URL, MAIL_FROM and PUBLIC_URL",
      ),
    ]
  const link =
    PUBLIC_URL === undefined
      ? [
          look(
            "PUBLIC_URL is unset: no mail has a link, so addresses are not proved and forgotten passwords not replaced",
            "set PUBLIC_URL to the address at which people reach the dashboard",
          ),
        ]
      : []
  const { createTransport } = await import("nodemailer")
  const address = new URL(SMTP_URL)
  for (const wait of ["connectionTimeout", "greetingTimeout", "socketTimeout"])
    address.searchParams.set(wait, String(MAIL_MS))
  const transport = createTransport(address.href)
  try {
    await transport.verify()
    return [...unencrypted(address), ok(`the mail server ${address.hostname} takes us`), ...link]
  } catch (error) {
    return [
      ...unencrypted(address),
      wrong(
        `the mail server ${address.hostname} does not take us: ${messageOf(error)}`,
        "check host, port, user and password of SMTP_URL",
      ),
    ]
  } finally {
    transport.close()
  }
}

/** What a server offers of TLS is used, and whoever stands between can take the offer away. */
function unencrypted({ protocol, hostname, searchParams }: URL): Finding[] {
  const isAsked = protocol === "smtps:" || ["requireTLS", "secure"].some((name) => searchParams.get(name) === "true")
  if (isAsked || isLoopback(hostname)) return []
  return [
    look(
      `mail to ${hostname} goes unencrypted where nobody offers TLS`,
      "add ?requireTLS=true to SMTP_URL, or let it begin with smtps://: mails have links that replace passwords",
    ),
  ]
}

/** What people agree to when they sign up: the operator's own texts, without a gap. */
export async function legal({ LEGAL_TEXTS_DIR: directory }: Config): Promise<readonly Finding[]> {
  const texts = await readLegalTexts(directory)
  if (Array.isArray(texts))
    return texts.map((problem) =>
      wrong(problem, `put a text of at most ${LONGEST_BYTES / 1024} KiB in UTF-8 there: a start waits for all six`),
    )
  if (directory === undefined)
    return [
      look(
        "LEGAL_TEXTS_DIR is unset: people agree to example terms, privacy and refund texts, which have gaps",
        "`loket legal-texts <directory>`, fill them in, and set LEGAL_TEXTS_DIR to that directory",
      ),
    ]
  if (texts.unfinished.length > 0)
    return [
      look(
        `the texts in ${directory} have gaps still: ${texts.unfinished.join(", ")}`,
        "fill in what stands in [ISI: …] and [FILL IN: …]",
      ),
    ]
  return [ok(`the terms, privacy and refund texts are those of ${directory}, version ${texts.version}`)]
}

const SEARCH_MS = 5_000

export async function searching({ SEARCH_URL }: Config): Promise<readonly Finding[]> {
  if (SEARCH_URL === undefined) return []
  const remedy = "check SEARCH_URL, and that settings.yml of the search server allows the format json"
  try {
    const answer = await fetch(`${SEARCH_URL.replace(/\/+$/, "")}/search?format=json&q=loket`, {
      signal: AbortSignal.timeout(SEARCH_MS),
    })
    const body: unknown = answer.ok ? await answer.json() : undefined
    return typeof body === "object" && body !== null && "results" in body
      ? [ok("the search server answers")]
      : [wrong(`the search server answers ${answer.status} without results`, remedy)]
  } catch (error) {
    return [wrong(`the search server does not answer: ${messageOf(error)}`, remedy)]
  }
}
