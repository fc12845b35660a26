/**
 * A route is declared once: its path, who may call it, its input, its response, and its description. The declaration drives the checks
 * before the handler, the types of the dashboard's client, and the OpenAPI document (`openapi.ts`).
 *
 * A field's schema says in `description` what it must be: a refusal is made of the field's name and that. Elysia's own
 * parsing and validation are not used, because a refusal must have the gateway's error body and code.
 */
import type { Static, TObject, TSchema } from "@sinclair/typebox"
import { type TypeCheck, TypeCompiler } from "@sinclair/typebox/compiler"
import type { DocumentDecoration } from "elysia"
import type { Permission } from "../accounts/members.ts"
import { Failure } from "../failure/failure.ts"
import { readBody } from "../gateway/read-body.ts"
import { present } from "../language/json.ts"
import type { OperatorRole } from "../store/operator/role.ts"
import { parseBody } from "../wire/body.ts"
import { type ChangeName, IDEMPOTENCY_KEY } from "../store/idempotency-keys.ts"
import type { Changes, Outcome, Sent } from "./changes.ts"
import { whileAllowed } from "./connection.ts"
import { contextOf } from "./edge.ts"
import type { Said } from "./shapes.ts"

export const tags = ["Models", "Calls", "Usage", "Account", "Keys", "Top-ups", "Running", "Operator"] as const

/** What a caller must show: nothing, an API key, a management token, or a session. */
export type Credential = "none" | "key" | "token" | "session"

export interface RouteTerms<Body = TSchema, Query = TObject, Answer = TSchema> {
  readonly tag: (typeof tags)[number]
  readonly summary: Said
  readonly description?: Said
  readonly body?: Body
  readonly query?: Query
  /** JSON, when all went well. */
  readonly answer?: Answer
  /** The content type of a response that is not JSON. A route with both may send either. */
  readonly media?: "application/json" | "text/csv" | "application/pdf" | "text/event-stream" | "text/html"
  /** The status of success; 200 by default. */
  readonly status?: 201 | 204
  /** Another status of the same response, which the handler sets itself. */
  readonly alsoStatus?: 201 | 503
  /** The lowest operator role that may call the route. */
  readonly role?: OperatorRole
  /** For signed-in callers: the permission that a member's role needs, or that the route is about the person's own account. */
  readonly may?: Permission | "self"
  /** The headers that are read. */
  readonly headers?: TObject
}

/** A route's part of the OpenAPI document. */
export interface Documented extends DocumentDecoration {
  readonly credential: Credential
  readonly terms: RouteTerms
}

/** The options of a route that checks its input itself. */
export const documented = (
  credential: Credential,
  terms: RouteTerms,
): { readonly parse: "none"; readonly detail: Documented } => ({ parse: "none", detail: { credential, terms } })

/** A Standard Schema that accepts everything. It only types a body or a query for the client. */
interface TypeOnly<T> {
  readonly "~standard": {
    readonly version: 1
    readonly vendor: "loket"
    readonly validate: (value: unknown) => { readonly value: unknown }
    readonly types?: { readonly input: T; readonly output: T }
  }
}
const typeOnly: TypeOnly<never> = {
  "~standard": { version: 1, vendor: "loket", validate: (value) => ({ value }) },
}

type Params<Path extends string> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Readonly<Record<Name, string>> & Params<`/${Rest}`>
  : Path extends `${string}:${infer Name}`
    ? Readonly<Record<Name, string>>
    : unknown

/** Elysia's context of a route. */
interface Context<Path extends string> {
  readonly request: Request
  readonly params: Params<Path>
  readonly set: { status?: number | string; headers: Record<string, string | number> }
}

type StaticOf<Schema> = Schema extends TSchema ? Static<Schema> : undefined

type Call<Path extends string, Caller, Body, Query> = Context<Path> &
  Caller & {
    readonly body: StaticOf<Body>
    readonly query: StaticOf<Query>
    /** The name of an idempotent change, for its statement. Undefined without an `Idempotency-Key`. */
    readonly change: ChangeName | undefined
  }

/** How a change of the caller's is carried out once. */
type Once<Caller> = (
  caller: Caller,
  sent: Pick<Sent, "request" | "body">,
  work: (change: ChangeName | undefined) => Promise<Outcome | Failure>,
) => ReturnType<Changes["once"]>

type InTurn<Caller> = <T>(caller: Caller, request: Request, work: () => Promise<T | Failure>) => Promise<T | Failure>

/** Lists and fields may be read-only. */
type Answered<T> = T extends readonly (infer Item)[]
  ? readonly Answered<Item>[]
  : T extends object
    ? { readonly [Name in keyof T]: Answered<T[Name]> }
    : T
/** The results of a handler. */
export type AnswerOf<Answer> = Answer extends TSchema ? Answered<Static<Answer>> : Response | undefined

type Options<Body, Query> = { readonly parse: "none"; readonly detail: Documented } & (Body extends TSchema
  ? { readonly body: TypeOnly<Static<Body>> }
  : unknown) &
  (Query extends TSchema ? { readonly query: TypeOnly<Static<Query>> } : unknown)

/**
 * Creates the routes of callers that `find` accepts. The caller is checked before its input, and again where that was late or had to wait.
 * `Needed` are further options that each such route must declare.
 */
export const routesFor =
  <Caller extends object, Needed extends object = object>(
    credential: Credential,
    find: (request: Request, needed: Needed) => Promise<Caller | Failure>,
    once?: Once<Caller>,
    /** Runs a change as this caller. */
    as: <T>(caller: Caller, work: () => Promise<T>) => Promise<T> = (_, work) => work(),
    /** Runs a request when it is its turn. */
    inTurn: InTurn<Caller> = (_caller, _request, work) => work(),
  ) =>
  <
    const Path extends string,
    Body extends TObject | undefined = undefined,
    Query extends TObject | undefined = undefined,
    Answer extends TSchema | undefined = undefined,
  >(
    path: Path,
    terms: RouteTerms<Body, Query, Answer> & Needed,
    handler: (call: Call<Path, Caller, Body, Query>) => Promise<AnswerOf<Answer> | Failure>,
  ) => {
    const readBody = terms.body === undefined ? undefined : bodyReader(terms.body)
    const readQuery = terms.query === undefined ? nothing : queryReader(terms.query)
    // Named in the parameter: what Elysia prepares for a handler it reads from the handler's text, and of a binary that is minified.
    const handle = async ({ request, params, set }: Context<Path>): Promise<AnswerOf<Answer> | Failure> => {
      // Read before the first await.
      void contextOf(request).address
      const asked = await find(request, terms)
      if (asked instanceof Failure) return asked
      const query = await readQuery(request)
      if (query instanceof Failure) return query
      const isKeyed = once !== undefined && changesSomething(request) && request.headers.has(IDEMPOTENCY_KEY)
      const askedAt = performance.now()
      const bytes = isKeyed || readBody !== undefined ? await readBytes(request) : NO_BYTES
      if (bytes instanceof Failure) return bytes
      const answered = await inTurn(asked, request, async () => {
        // Whoever held a body back, or had to wait, must not be taken for what they were when it began.
        const caller = performance.now() - askedAt < SOON_MS ? asked : await find(request, terms)
        if (caller instanceof Failure) return caller
        const body = readBody?.(bytes)
        if (body instanceof Failure) return body
        const handled = async (change?: ChangeName) => {
          const call = { request, params, set, ...caller, body, query, change }
          const work = () => handler(call as unknown as Call<Path, Caller, Body, Query>)
          const answer = await (changesSomething(request) ? as(caller, work) : work())
          if (terms.status !== undefined && !(answer instanceof Failure)) set.status = terms.status
          return answer
        }
        if (!isKeyed) return await handled()
        const outcome = await once(caller, { request, body: bytes }, async (change) => {
          const answer = await handled(change)
          return answer instanceof Failure ? answer : { answer, status: set.status }
        })
        if (outcome instanceof Failure) return outcome
        if (outcome.status !== undefined) set.status = outcome.status
        Object.assign(set.headers, outcome.headers)
        return outcome.answer as AnswerOf<Answer>
      })
      const isFile = terms.media === "text/csv" || terms.media === "application/json"
      if (!isFile || !(answered instanceof Response)) return answered
      return whileAllowed(answered, async () => !((await find(request, terms)) instanceof Failure)) as AnswerOf<Answer>
    }
    const options = {
      ...documented(credential, terms as RouteTerms),
      ...(terms.body !== undefined && { body: typeOnly }),
      ...(terms.query !== undefined && { query: typeOnly }),
    } as unknown as Options<Body, Query>
    return [path, handle, options] as const
  }

/** A route that anybody may call. */
export const open = routesFor("none", async () => ({}))

const nothing = async () => undefined
const NO_BYTES = new Uint8Array()
/** A body that is sent with its head is here by then. */
const SOON_MS = 50

export const changesSomething = ({ method }: Pick<Request, "method">): boolean => method !== "GET" && method !== "HEAD"

/** Far above any body that the dashboard sends. */
const LIMIT_BYTES = 64 * 1024

/** The raw bytes, for bodies with a signature. */
export const readBytes = (request: Request): Promise<Uint8Array | Failure> =>
  readBody(request, { maxBytes: LIMIT_BYTES })

/**
 * A reader of one kind of body. Fields outside the schema are ignored, or refused where the schema is exact (shapes.ts). A `null` is an
 * absent field (decisions §12.7), unless the schema's field accepts it.
 */
function bodyReader<S extends TObject>(schema: S): (bytes: Uint8Array) => Static<S> | Failure {
  const check = checker(schema)
  const takesNull = Object.values<TSchema>(schema.properties).some(({ anyOf }) =>
    (anyOf as readonly TSchema[] | undefined)?.some(({ type }) => type === "null"),
  )
  return (bytes) => {
    const body = parseBody(bytes)
    if (body instanceof Failure || takesNull) return body instanceof Failure ? body : check(body)
    return check(Object.fromEntries(Object.entries(body).filter(([, value]) => present(value))))
  }
}

/**
 * A reader of a schema's query parameters. An empty parameter is an absent one, because forms send empty ones. Others than the schema's are
 * ignored, or refused where it is exact.
 */
function queryReader<S extends TObject>(schema: S): (request: Request) => Promise<Static<S> | Failure> {
  const check = checker(schema)
  return async ({ url }) => {
    const given = new URL(url).searchParams
    const query: Record<string, unknown> = {}
    for (const [name, field] of Object.entries<TSchema>(schema.properties)) {
      const text = given.get(name)
      if (text !== null && text !== "") query[name] = fromText(text, field)
    }
    if (schema.additionalProperties === false) {
      for (const [name, text] of given) if (!Object.hasOwn(schema.properties, name)) query[name] = text
    }
    return check(query)
  }
}

/** A parameter converted to its schema's type. A text that cannot be converted stays text and is refused. */
function fromText(text: string, { type }: TSchema): unknown {
  if (type === "integer" && /^\d{1,15}$/.test(text)) return Number(text)
  if (type === "boolean" && (text === "true" || text === "false")) return text === "true"
  return text
}

function checker<S extends TObject>(schema: S): (fields: Readonly<Record<string, unknown>>) => Static<S> | Failure {
  // Compiled when it is first asked for: a process that starts has two hundred of them.
  let compiled: TypeCheck<S> | undefined
  const known = Object.keys(schema.properties)
  return (fields) => {
    compiled ??= TypeCompiler.Compile(schema)
    if (compiled.Check(fields)) return fields
    const unknown = Object.keys(fields).find((name) => !known.includes(name))
    if (unknown !== undefined && schema.additionalProperties === false) return unknownField(unknown, known)
    const name = compiled.Errors(fields).First()?.path.split("/")[1] ?? ""
    return refused(name, schema.properties[name]?.description ?? "valid")
  }
}

const LONGEST_NAME = 64

const unknownField = (name: string, known: readonly string[]): Failure =>
  new Failure("request.invalid", {
    message: `'${name.slice(0, LONGEST_NAME).toWellFormed()}' is no field of this request; its fields are ${known.join(", ")}.`,
  })

export const refused = (name: string, description: string): Failure =>
  new Failure("request.invalid", { message: `'${name}' must be ${description}.` })
