/** What an ask of an actor is to a call: the reply, or a failure. */
import type { Outcome } from "../../actors/kernel/actor.ts"
import { Ask } from "../../actors/kernel/ask.ts"
import { Failure } from "../failure/failure.ts"
import { DatabaseUnavailable } from "../store/database.ts"

export const actorAsk = <T>(): Ask<T, T | Failure> => new Ask(valueOf<T>)

/** What an ask came to: a value, or a failure. */
function valueOf<T>(outcome: Outcome<T>): T | Failure {
  if (outcome.kind === "ok") return outcome.value
  if (outcome.kind === "unknown") {
    // A turn ends at once; what is not answered in time waits for a lease to grow, and so for the database.
    return new Failure(outcome.reason === "deadline" ? "dependency.database_unavailable" : "internal.error")
  }
  if (outcome.reason === "full" || outcome.reason === "late") return new Failure("gateway.capacity", { retryAfterS: 1 })
  // An actor that cannot start, or not in time, waits for the database.
  const waits = outcome.reason === "unavailable" && outcome.cause === undefined
  if (waits || outcome.cause instanceof DatabaseUnavailable) return new Failure("dependency.database_unavailable")
  return new Failure("internal.error")
}
