/**
 * Who may enter here: a signed-in operator. Everybody else who is signed in is told 403, whatever the route and whatever
 * stands behind it, so that nothing shows of what there is.
 */
import { Failure } from "../../failure/failure.ts"
import type { Act } from "../../store/operator/audit.ts"
import type { Authenticate } from "../dashboard/session.ts"
import { contextOf } from "../edge.ts"

export interface Operator {
  readonly accountId: string
  /** In which plain days are meant. */
  readonly timeZone: string
  /** What the audit log is told of who acts. */
  readonly act: Act
}

export type OperatorGate = (request: Request) => Promise<Operator | Failure>

export function operatorGate(authenticate: Authenticate): OperatorGate {
  return async (request) => {
    const session = await authenticate(request)
    if (session instanceof Failure) return session
    if (session.role !== "operator") return new Failure("auth.forbidden", { message: "This is for operators." })
    const { requestId, address } = contextOf(request)
    const { accountId, timeZone } = session
    return { accountId, timeZone, act: { requestId, operatorId: accountId, address } }
  }
}
