/**
 * A route, said once: its path, who may call it, what it takes, what it answers, and its prose. From this come what is
 * checked before its handler runs, the types of the dashboard's client, and the OpenAPI document (`openapi.ts`).
 *
 * A field's schema says in `description` what it must be: a refusal is made of the field's name and that. Elysia's own
 * parsing and validation are not used, because a refusal must have the gateway's error body and code.
 */
import type { Static, TObject, TSchema } from "@sinclair/typebox"
import { TypeCompiler } from "@sinclair/typebox/compiler"
import type { DocumentDecoration } from "elysia"
import type { Permission } from "../accounts/permissions.ts"
import { Failure } from "../failure/failure.ts"
import { readBody } from "../gateway/read-body.ts"
import { present } from "../language/json.ts"
import type { OperatorRole } from "../store/operator/role.ts"
import { parseBody } from "../wire/body.ts"
import type { ChangeName } from "../store/idempotency-keys.ts"
import { IDEMPOTENCY_KEY } from "../idempotency-key.ts"
import type { Changes, Outcome, Sent } from "./changes.ts"
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
  /** What an answer that is not JSON is. A route with both answers either. */
  readonly media?: "application/json" | "text/csv" | "application/pdf" | "text/event-stream" | "text/html"
  /** Of the answer when all went well: 200 unless it is said. */
  readonly status?: 201 | 204
  /** Another status of the same answer, which the handler sets itself. */
  readonly alsoStatus?: 201 | 503
  /** Of an operator's route: the least that an operator must be. */
  readonly role?: OperatorRole
  /** Of a route of whoever is signed in: what a member's role must allow, or that it is about the person's own account. */
  readonly may?: Permission | "self"
  /** What is read of the headers. */
  readonly headers?: TObject
}

/** What a route carries for the OpenAPI document. */
export interface Documented extends DocumentDecoration {
  readonly credential: Credential
  readonly terms: RouteTerms
}

/** The options of a route that does not check what it takes by its terms. */
export const documented = (
  credential: Credential,
  terms: RouteTerms,
): { readonly parse: "none"; readonly detail: Documented } => ({ parse: "none", detail: { credential, terms } })

/** A Standard Schema that lets everything pass: the types of a body or a query for the client, and nothing at run time. */
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

/** What Elysia hands to a route. */
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
    /** What a statement takes that must have its effect once; undefined without an `Idempotency-Key`. */
    readonly change: ChangeName | undefined
  }

/** How a change of the caller's is carried out once. */
type Once<Caller> = (
  caller: Caller,
  sent: Pick<Sent, "request" | "body">,
  work: (change: ChangeName | undefined) => Promise<Outcome | Failure>,
) => ReturnType<Changes["once"]>

/** Lists and fields may be read-only. */
type Answered<T> = T extends readonly (infer Item)[]
  ? readonly Answered<Item>[]
  : T extends object
    ? { readonly [Name in keyof T]: Answered<T[Name]> }
    : T
/** What a handler may answer with. */
export type AnswerOf<Answer> = Answer extends TSchema ? Answered<Static<Answer>> : Response | undefined

type Options<Body, Query> = { readonly parse: "none"; readonly detail: Documented } & (Body extends TSchema
  ? { readonly body: TypeOnly<Static<Body>> }
  : unknown) &
  (Query extends TSchema ? { readonly query: TypeOnly<Static<Query>> } : unknown)

/**
 * Makes the routes of those whom `find` lets in. The caller is judged before anything that the call brings. `Needed` is what
 * the terms of each such route must say beside the others.
 */
export const routesFor =
  <Caller extends object, Needed extends object = object>(
    credential: Credential,
    find: (request: Request, needed: Needed) => Promise<Caller | Failure>,
    once?: Once<Caller>,
    /** Does the work of a change as this caller. */
    as: <T>(caller: Caller, work: () => Promise<T>) => Promise<T> = (_, work) => work(),
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
    const handle = async (context: Context<Path>): Promise<AnswerOf<Answer> | Failure> => {
      // Found before anything is waited for.
      void contextOf(context.request).address
      const caller = await find(context.request, terms)
      if (caller instanceof Failure) return caller
      const query = await readQuery(context.request)
      if (query instanceof Failure) return query
      const { request, params, set } = context
      const isKeyed = once !== undefined && changesSomething(request) && request.headers.has(IDEMPOTENCY_KEY)
      const bytes = isKeyed || readBody !== undefined ? await readBytes(request) : NO_BYTES
      if (bytes instanceof Failure) return bytes
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

export const changesSomething = ({ method }: Pick<Request, "method">): boolean => method !== "GET" && method !== "HEAD"

/** Nothing that the dashboard sends comes near it. */
const LIMIT_BYTES = 64 * 1024

/** The raw bytes, for what is signed over them. */
export const readBytes = (request: Request): Promise<Uint8Array | Failure> =>
  readBody(request, { maxBytes: LIMIT_BYTES })

/**
 * A reader of one kind of body. Fields that the schema does not name are ignored. A `null` is an absent field (decisions §12.7)
 * where the schema has no field that takes it.
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

/** A reader of the parameters that a schema names. An empty one is an absent one: forms send them. */
function queryReader<S extends TObject>(schema: S): (request: Request) => Promise<Static<S> | Failure> {
  const check = checker(schema)
  return async ({ url }) => {
    const given = new URL(url).searchParams
    const query: Record<string, unknown> = {}
    for (const [name, field] of Object.entries<TSchema>(schema.properties)) {
      const text = given.get(name)
      if (text !== null && text !== "") query[name] = fromText(text, field)
    }
    return check(query)
  }
}

/** A parameter as its schema means it; what cannot be read as that stays text, and is refused. */
function fromText(text: string, { type }: TSchema): unknown {
  if (type === "integer" && /^\d{1,15}$/.test(text)) return Number(text)
  if (type === "boolean" && (text === "true" || text === "false")) return text === "true"
  return text
}

function checker<S extends TObject>(schema: S): (fields: unknown) => Static<S> | Failure {
  const compiled = TypeCompiler.Compile(schema)
  return (fields) => {
    if (compiled.Check(fields)) return fields
    const name = compiled.Errors(fields).First()?.path.split("/")[1] ?? ""
    return refused(name, schema.properties[name]?.description ?? "valid")
  }
}

export const refused = (name: string, description: string): Failure =>
  new Failure("request.invalid", { message: `'${name}' must be ${description}.` })
