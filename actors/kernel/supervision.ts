/**
 * Restarts with a limit. A crash is a bug met once; many in a short time are a bug that restarting does not mend, and
 * then the whole process should end and start clean (after Erlang/OTP's restart intensity).
 */
import type { Clock } from "./clock.ts"

export interface Intensity {
  readonly restarts: number
  readonly withinMs: number
}

export function supervisor(clock: Clock, intensity: Intensity, escalate: (cause: unknown) => void) {
  const times: number[] = []
  return (cause: unknown): "restart" | "stop" => {
    const now = clock.monotonic()
    times.push(now)
    while (times[0] !== undefined && now - times[0] > intensity.withinMs) times.shift()
    if (times.length <= intensity.restarts) return "restart"
    escalate(cause)
    return "stop"
  }
}
