/**
 * The dashboard's API, typed by the server's own routes (Eden). Types alone come from there: nothing of the server is in
 * the page. The session is a cookie that the page never sees.
 */
import { treaty } from "@elysiajs/eden/treaty2"
import type { DashboardApi } from "../../http/dashboard/api.ts"
import { ApiFailure, errorBody, retryAfterS } from "./failure.ts"

/** Times stay text, as the API sends them. They are parsed where they are shown. */
export const api = treaty<DashboardApi>(location.origin, { parseDate: false })

interface Answered {
  readonly data: unknown
  readonly error: { readonly value: unknown } | null
  readonly status: number
  readonly response: Response
}
type Data<A> = A extends { readonly error: null; readonly data: infer T } ? T : never

/** The data that a call of the client returns. Throws an ApiFailure, as queries and mutations expect it. */
export async function unwrap<A extends Answered>(call: Promise<A>): Promise<Data<A>> {
  const { data, error, status, response } = await call.catch(() => {
    throw new ApiFailure(undefined, 0)
  })
  if (error === null) return data as Data<A>
  throw new ApiFailure(errorBody(error.value), status, retryAfterS(response))
}
