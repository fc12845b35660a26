/** `loket start` with `WORKERS` over 1: workers on one port, and one listener for their metrics. */
import { type Config, workersOf } from "../config.ts"
import { logToStandardOutput } from "../log.ts"
import { ownCommand } from "../own-command.ts"
import { serviceManager } from "../systemd.ts"
import { Supervisor } from "../workers/supervisor.ts"
import { CommandFailure } from "./command.ts"

/** How long an exit waits for a reader of the log that is slow. */
export const LOG_DRAIN_MS = 2_000

export async function supervise(config: Config): Promise<void> {
  const { log, pass, drained } = logToStandardOutput(config.LOG_LEVEL)
  const manager = serviceManager(process.env, log)
  const workers = workersOf(config)
  const supervisor = new Supervisor({
    workers,
    command: ownCommand(),
    env: process.env,
    port: config.PORT,
    log,
    write: pass,
  })
  const stopped = Promise.withResolvers<void>()
  let stopping = false
  const stop = (signal: string) => {
    if (stopping) return
    stopping = true
    log.info("stopping", { signal })
    manager.stopping()
    void supervisor.stop().then(stopped.resolve, stopped.reject)
  }
  for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => stop(signal))
  const url = await supervisor.start().catch((error: unknown) => {
    if (stopping) return undefined
    throw new CommandFailure(`a worker does not start: ${error instanceof Error ? error.message : String(error)}`)
  })
  if (url !== undefined) {
    const metrics = listenForMetrics(config, supervisor)
    process.on("SIGHUP", () => void supervisor.replaceAll())
    manager.ready()
    // Last, so that whoever reads it can stop it in order.
    log.info("listening", { url, workers })
    await stopped.promise
    await metrics?.stop(true)
  }
  await Promise.race([drained(), Bun.sleep(LOG_DRAIN_MS)])
}

/** Undefined without `METRICS_PORT`. */
const listenForMetrics = ({ HOST, METRICS_PORT }: Config, supervisor: Supervisor) =>
  METRICS_PORT === undefined
    ? undefined
    : Bun.serve({ hostname: HOST, port: METRICS_PORT, fetch: (request) => supervisor.respond(request) })
