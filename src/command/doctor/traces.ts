/** The collector of traces: whether it takes what is sent there. Sends a request without spans, which every collector takes. */
import { type Config, variableNames } from "../../config.ts"
import { isLoopback } from "../../http/dashboard/session.ts"
import { tracesAt } from "../../traces/collector.ts"
import { collectorHeaders } from "../../traces/tracing.ts"
import { codeOf, type Finding, look, messageOf, ok, wrong } from "./finding.ts"

const ANSWER_MS = 5_000
const GRPC_PORT = "4317"

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
  return [...found, ...written(config, endpoint), await asked(config, endpoint)]
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

async function asked(config: Config, endpoint: string): Promise<Finding> {
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
