/**
 * What the dashboard's API looks like to its client, as types alone. Handlers read bodies and query strings themselves,
 * because a refusal must have the gateway's error body; these say of what type they are, and nothing at run time.
 */
import type { Elysia } from "elysia"
import type { Failure } from "../../failure/failure.ts"
import type { FailureCode, FailureStatus } from "../../failure/table.ts"

interface TypeOnly<T> {
  readonly "~standard": {
    readonly version: 1
    readonly vendor: "loket"
    readonly validate: (value: unknown) => { readonly value: unknown }
    readonly types?: { readonly input: T; readonly output: T }
  }
}

/** A Standard Schema that lets everything pass: the handler's own reader refuses. */
const typeOnly: TypeOnly<never> = {
  "~standard": { version: 1, vendor: "loket", validate: (value) => ({ value }) },
}

type Reader<Body> = (request: Request) => Promise<Body | Failure>

/** The options of a route whose handler reads its body with `reader`. */
export const takes = <Body>(_reader: Reader<Body>): { readonly parse: "none"; readonly body: TypeOnly<Body> } => ({
  parse: "none",
  body: typeOnly,
})

/** The options of a route whose handler reads these parameters from the query string. */
export const asks = <Query>(): { readonly query: TypeOnly<Query> } => ({ query: typeOnly })

/** gateway-api.md, "Error body". */
export interface ErrorBody {
  readonly error: string
  readonly code: FailureCode
  readonly type: string
  readonly request_id: string
  readonly retryable: boolean
  readonly hint?: string
}

/** What the edge makes of what handlers return: a Failure leaves with a status of its own, and the error body. */
type Told<Response> = Response extends { 200: infer Returned }
  ? { 200: Exclude<Returned, Failure> } & Record<FailureStatus, ErrorBody>
  : Response

type ToldRoutes<Routes> = {
  [Name in keyof Routes]: Routes[Name] extends { response: infer Response }
    ? Omit<Routes[Name], "response"> & { response: Told<Response> }
    : ToldRoutes<Routes[Name]>
}

/** A controller's type as its client sees it. */
export type ClientView<App> =
  App extends Elysia<infer Base, infer Singleton, infer Definitions, infer Meta, infer Routes, infer Own, infer Passing>
    ? Elysia<Base, Singleton, Definitions, Meta, ToldRoutes<Routes>, Own, Passing>
    : never
