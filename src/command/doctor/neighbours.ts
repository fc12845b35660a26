/**
 * The servers beside the database: Redis, and the collector of traces. Whether they are reached and usable. Changes nothing.
 */
import { connect as connectTcp } from "node:net"
import { connect as connectTls } from "node:tls"
import { type Config, variableNames } from "../../config.ts"
import { isLoopback } from "../../http/dashboard/session.ts"
import { RedisConnection } from "../../redis/connection.ts"
import { tracesAt } from "../../traces/collector.ts"
import { collectorHeaders } from "../../traces/tracing.ts"
import { codeOf, type Finding, look, messageOf, ok, wrong } from "../command.ts"

const CONNECT_MS = 3_000
const SLOW_MS = 5
const OLDEST = [6, 2] as const

/** Redis, for exact limits: whether it takes the password, may be written to, keeps what it is told, and is near. */
export async function redis({ REDIS_URL: url, REDIS_PREFIX: prefix }: Config): Promise<readonly Finding[]> {
  if (url === undefined) return []
  const { host, hostname, protocol } = new URL(url)
  let connection: RedisConnection
  try {
    connection = await RedisConnection.open(url, CONNECT_MS)
  } catch {
    return [await whyNot(url)]
  }
  try {
    const found = await redisFindings(connection, host, prefix)
    if (protocol === "redis:" && !isLoopback(hostname))
      found.push(
        look(`the way to Redis ${host} is not encrypted`, "let REDIS_URL begin with rediss://, or keep it private"),
      )
    return found
  } catch (error) {
    return [
      wrong(
        `Redis ${host} refuses what limits need: ${messageOf(error)}`,
        "docs/operating/processes.md has the rights of its user",
      ),
    ]
  } finally {
    connection.close()
  }
}

async function redisFindings(connection: RedisConnection, host: string, prefix: string): Promise<Finding[]> {
  // Of an epoch that there is not nothing is counted: it only shows that the script may run on these keys.
  const tried = () => connection.script([`${prefix}:epoch`, `${prefix}:doctor`], ["look", "-", "0", "0", "1"])
  await tried()
  const began = performance.now()
  await tried()
  const tookMs = performance.now() - began
  // A user that may not ask for it does without these.
  const info = await connection.send("INFO", []).then(String, () => "")
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(info)?.[1]
  const found: Finding[] = []
  const version = field("valkey_version") ?? field("redis_version")
  const [major = 0, minor = 0] = (version ?? "").split(".").map(Number)
  if (version !== undefined && (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])))
    found.push(wrong(`Redis ${host} is ${version}`, `upgrade it to ${OLDEST.join(".")} or newer`))
  if (field("role") === "slave")
    found.push(wrong(`Redis ${host} is a replica, which takes no writes`, "point REDIS_URL at the primary"))
  if (field("redis_mode") === "cluster")
    found.push(
      wrong(
        `Redis ${host} is one of a cluster`,
        "give limits a server of their own: the two keys of a window may be on two nodes",
      ),
    )
  const policy = field("maxmemory_policy")
  const most = Number(field("maxmemory") ?? 0)
  if (policy !== undefined && policy !== "noeviction" && most > 0)
    found.push(
      look(
        `Redis ${host} forgets windows when it is full (maxmemory-policy ${policy})`,
        "`config set maxmemory-policy noeviction`, and give it memory",
      ),
    )
  if (most > 0 && Number(field("used_memory") ?? 0) > most)
    found.push(wrong(`Redis ${host} has no memory left`, "raise its maxmemory, or remove what else it keeps"))
  if (tookMs > SLOW_MS)
    found.push(
      look(
        `Redis ${host} took ${Math.round(tookMs)} ms to answer, twice on each call's way`,
        "put it near; beyond 80 ms limits go by shares",
      ),
    )
  return found.length > 0 ? found : [ok(`Redis ${host} counts limits${version === undefined ? "" : ` (${version})`}`)]
}

/** The client does not say why it was refused, so it is redisFindings once more by hand. */
async function whyNot(url: string): Promise<Finding> {
  const { host, hostname, port, protocol, username, password } = new URL(url)
  try {
    const words = [username || "default", password].map(decodeURIComponent)
    const auth = password === "" ? "" : command("AUTH", ...words)
    const said = await answerOf(protocol === "rediss:", hostname, Number(port || 6_379), auth + command("PING"))
    const refusal = /^-(\S+)/.exec(said)?.[1]
    if (refusal === "WRONGPASS" || refusal === "NOAUTH" || refusal === "ERR")
      return wrong(
        `Redis ${host} refuses the user or the password (${refusal})`,
        "check both in REDIS_URL; write %XX for what an address cannot hold",
      )
    if (refusal !== undefined) return wrong(`Redis ${host} refuses: ${refusal}`, "see its log")
    return said.startsWith("+")
      ? wrong(
          `Redis ${host} answers, and is not Redis 6 or newer`,
          "upgrade it, or check the number of the database in REDIS_URL",
        )
      : wrong(`what answers at ${host} is no Redis`, "check REDIS_URL, and whether it is redis:// or rediss://")
  } catch (error) {
    const remedy =
      "start the server, or correct REDIS_URL; of a certificate, NODE_EXTRA_CA_CERTS names whose signature is believed"
    return wrong(`Redis ${host} is not reached: ${codeOf(error) ?? messageOf(error)}`, remedy)
  }
}

const command = (...words: readonly string[]): string =>
  `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`

/** The first that it says. */
function answerOf(isEncrypted: boolean, hostname: string, port: number, request: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const host = hostname.replace(/^\[|\]$/g, "")
    const socket = isEncrypted ? connectTls({ host, port, servername: host }) : connectTcp({ host, port })
    const end = (error: Error | undefined, said = "") => {
      socket.destroy()
      if (error === undefined) resolve(said)
      else reject(error)
    }
    socket.setTimeout(CONNECT_MS, () => end(new Error("no answer")))
    socket.on("error", (error) => end(error))
    socket.on("close", () => end(undefined))
    socket.on(isEncrypted ? "secureConnect" : "connect", () => void socket.write(request))
    socket.on("data", (bytes) => end(undefined, bytes.toString()))
  })
}

const ANSWER_MS = 5_000
const GRPC_PORT = "4317"

/** The collector of traces: whether it takes what is sent there. A request without spans is sent, which every collector takes. */
export async function traces(config: Config, environment: Readonly<Record<string, string | undefined>>) {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_SDK_DISABLED: isDisabled } = config
  const set = Object.keys(environment).filter((name) => name.startsWith("OTEL_") && (environment[name] ?? "") !== "")
  const found: Finding[] = set
    .filter((name) => !variableNames.includes(name))
    .map((name) =>
      look(`${name} is set, and nothing reads it`, "docs/operating/traces.md has the variables that are read"),
    )
  if (endpoint === undefined)
    return set.length === 0
      ? []
      : [
          ...found,
          look(
            `${set[0]} is set, but no collector is: nothing is traced`,
            "set OTEL_EXPORTER_OTLP_ENDPOINT, or unset it",
          ),
        ]
  if (isDisabled) return [...found, look("OTEL_SDK_DISABLED is true: nothing is traced", "unset it for traces")]
  return [...found, ...written(config, endpoint), await collectorAnswer(config, endpoint)]
}

/** What can be seen without asking anybody. */
function written(config: Config, endpoint: string): Finding[] {
  const { protocol, hostname } = new URL(endpoint)
  const found: Finding[] = []
  if (protocol === "http:" && !isLoopback(hostname) && config.OTEL_EXPORTER_OTLP_HEADERS !== undefined)
    found.push(
      look(
        `OTEL_EXPORTER_OTLP_HEADERS travel to ${hostname} unencrypted`,
        "let the collector's address begin with https://",
      ),
    )
  if (config.OTEL_TRACES_SAMPLER.endsWith("traceidratio") && config.OTEL_TRACES_SAMPLER_ARG < 1) return found
  if (config.OTEL_TRACES_SAMPLER.endsWith("always_off")) return found
  found.push(
    look(
      "every call is traced, which takes half as much CPU again",
      "on a busy gateway set OTEL_TRACES_SAMPLER=parentbased_traceidratio and OTEL_TRACES_SAMPLER_ARG=0.01",
    ),
  )
  return found
}

async function collectorAnswer(config: Config, endpoint: string): Promise<Finding> {
  const { host, port } = new URL(endpoint)
  const isJson = config.OTEL_EXPORTER_OTLP_PROTOCOL === "http/json"
  try {
    const { status, body } = await fetch(tracesAt(endpoint), {
      method: "POST",
      headers: { ...collectorHeaders(config), "Content-Type": isJson ? "application/json" : "application/x-protobuf" },
      body: isJson ? "{}" : new Uint8Array(),
      redirect: "manual",
      signal: AbortSignal.timeout(ANSWER_MS),
    })
    await body?.cancel()
    return ofStatus(host, status)
  } catch (error) {
    const remedy =
      port === GRPC_PORT
        ? "4317 is the port of gRPC, which is not spoken here: set OTEL_EXPORTER_OTLP_ENDPOINT to the one of OTLP over HTTP, 4318"
        : "check OTEL_EXPORTER_OTLP_ENDPOINT, and that the collector has a receiver for OTLP over HTTP"
    return wrong(`the collector ${host} is not reached: ${codeOf(error) ?? messageOf(error)}`, remedy)
  }
}

function ofStatus(host: string, status: number): Finding {
  const refused = `the collector ${host} refuses traces (${status})`
  if (status >= 200 && status < 300) return ok(`the collector ${host} takes traces`)
  if (status === 401 || status === 403) return wrong(refused, "check OTEL_EXPORTER_OTLP_HEADERS")
  if (status === 415) return wrong(refused, "try the other OTEL_EXPORTER_OTLP_PROTOCOL")
  if (status === 429 || status >= 500) return look(refused, "look at the collector's own log, and try again")
  return wrong(refused, "OTEL_EXPORTER_OTLP_ENDPOINT is the address to which /v1/traces is added")
}
