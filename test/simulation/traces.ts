/** A backend sees by the trace of a request whose call it is asked for: each client is in a trace of its own, which the gateway passes on. */
import { readConfig } from "../../src/config.ts"
import { readTraceParent, Tracing, writeTraceParent } from "../../src/traces/tracing.ts"

const config = readConfig({ OTEL_TRACES_SAMPLER: "always_off" })
if (Array.isArray(config)) throw new Error(config.join("\n"))

/** No call is sampled, so nothing is ever sent. */
export const tracing = new Tracing(config, "http://collector.invalid", {
  processId: "simulated",
  random: () => 1,
  failed: () => {},
})

export const traceOf = (requestId: string): string =>
  writeTraceParent({
    traceId: requestId.replace(/\D+/, "").padStart(32, "0"),
    spanId: "1".padStart(16, "0"),
    sampled: false,
  })

export const requestIdOf = (header: string | null): string =>
  `req_${readTraceParent(header)?.traceId.replace(/^0+/, "") ?? ""}`
