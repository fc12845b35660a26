/**
 * Who is signed in (decisions §10): a bearer token, or the session cookie. A cookie travels by itself, so a call that
 * changes something by cookie must also come from a page of ours. An API key opens nothing here, wherever it stands.
 */
import { isLoopbackNetwork, networkOf, siteOf } from "../../../actors/network.ts"
import type { Accounts, Session } from "../../accounts/accounts.ts"
import { API_KEY_PREFIX } from "../../accounts/bearer-tokens.ts"
import { type Permission, refusalOf } from "../../accounts/members.ts"
import { actingAs } from "../../store/database.ts"
import type { AllowanceStore } from "../../store/allowances.ts"
import { turns } from "../../store/gate.ts"
import { Failure, wholeSeconds } from "../../failure/failure.ts"
import { SESSION_DAYS, type ClientInfo } from "../../store/accounts.ts"
import type { Act } from "../../store/operator/audit.ts"
import type { Changes } from "../changes.ts"
import { mayAct, type OperatorRole } from "../../store/operator/role.ts"
import { contextOf } from "../edge.ts"
import { changesSomething, routesFor } from "../route.ts"

export interface Authenticate {
  (request: Request): Promise<Session | Failure>
  /** Where changes with an `Idempotency-Key` are carried out once. */
  readonly changes: Pick<Changes, "once">
}

export function authenticator(accounts: Pick<Accounts, "session">, changes: Authenticate["changes"]): Authenticate {
  const authenticate = async (request: Request) => {
    const presented = presentedToken(request)
    return presented instanceof Failure
      ? presented
      : await lookUp(request, () => accounts.session(presented, clientInfoOf(request)))
  }
  return Object.assign(authenticate, { changes })
}

/** Of one account so many are answered at once, and of one session or token of it. A page asks for some ten things. */
const AT_ONCE = { changes: { account: 4, one: 2 }, questions: { account: 16, one: 8 } }
/** Of one session or token, those that wait included. */
const MOST = 1_000

const refused = (): Failure =>
  new Failure("gateway.capacity", { message: "Too many requests wait for their answer.", retryAfterS: 1 })
const linesFor = ({ account, one }: (typeof AT_ONCE)["changes"]) => ({
  ofAccount: turns({ atOnce: account, most: Infinity, refused }),
  ofOne: turns({ atOnce: one, most: MOST, refused }),
})
const lines = { changes: linesFor(AT_ONCE.changes), questions: linesFor(AT_ONCE.questions) }

/**
 * Runs what a session or a token asks for when it is its turn. All statements wait in one line, whoever they are of: hundreds of requests
 * that one account sends at once would keep everybody else waiting for seconds, calls too. So they wait in a line of their own first.
 * A session has fewer places than its account, so that whoever has stolen one does not keep the owner from ending it.
 */
export function inTurn<T>(
  { accountId, id }: { readonly accountId: string; readonly id: string },
  request: Request,
  work: () => Promise<T | Failure>,
): Promise<T | Failure> {
  const { ofAccount, ofOne } = changesSomething(request) ? lines.changes : lines.questions
  return ofOne(id, () => ofAccount(accountId, work))
}

/**
 * Of one network so many tokens are looked up at once: more than the database has places, so that nobody waits for nothing. A token
 * that nobody has is of no account that it could wait in the line of. Loopback is not counted, as with sign-ups.
 */
const LOOK_UPS_AT_ONCE = 16
/** While the database is away each of them takes until its own deadline. */
const LOOK_UP_WAIT_MS = 5_000
const lookUps = turns({ atOnce: LOOK_UPS_AT_ONCE, most: MOST, waitMs: LOOK_UP_WAIT_MS, refused })
/** Requests of somebody: who that is now is looked up again for as long as they are answered. */
const known = new WeakSet<Request>()

/** Looks up who sends a request. */
export function lookUp<T>(request: Request, work: () => Promise<T | Failure>): Promise<T | Failure> {
  const network = networkOf(contextOf(request).address)
  if (known.has(request) || isLoopbackNetwork(network)) return work()
  return lookUps(siteOf(network), async () => {
    const found = await work()
    if (!(found instanceof Failure)) known.add(request)
    return found
  })
}

/** Takes one of so many in a time, and returns the refusal where none is left. */
export async function tooOften(
  allowances: Pick<AllowanceStore, "take">,
  allowed: Parameters<AllowanceStore["take"]>[0],
  refusal: (retryAfterS: number) => Failure,
): Promise<Failure | undefined> {
  const waitS = await allowances.take(allowed)
  return waitS === undefined ? undefined : refusal(wholeSeconds(waitS))
}

/** What a route of whoever is signed in takes: a permission in the account that is looked at, or `self` for what is the person's own. */
export type May = Permission | "self"

/** What a route is where an operator sees an account as its customer does: of the operator's own session, or not for them at all. */
type WhenSeen = "own" | "refused"

/** Which account a caller means. Whoever sends it is refused where the session shows another one meanwhile. */
const ACCOUNT_HEADER = "X-Account-Id"

/**
 * Makes the routes of whoever is signed in. Each is about the person's own account, or about the one that the session looks at;
 * then membership and role are those of this moment.
 */
export const signedInBy = (authenticate: Authenticate) =>
  routesFor<{ readonly session: Session }, { readonly may: May; readonly whenSeen?: WhenSeen }>(
    "session",
    async (request, { may, whenSeen }) => {
      const session = await authenticate(request)
      const whose = session instanceof Failure ? session : whoseAccount(session, request, may, whenSeen)
      return whose instanceof Failure ? whose : { session: whose }
    },
    ({ session: { accountId, personId } }, sent, work) =>
      authenticate.changes.once({ accountId, personId, ...sent }, work),
    ({ session: { accountId, personId } }, work) =>
      accountId === personId ? work() : actingAs({ accountId, memberId: personId }, work),
    ({ session }, request, work) => inTurn(session, request, work),
  )

/** The session, about the account that a route is for. */
export function whoseAccount(
  session: Session,
  request: Pick<Request, "headers" | "method">,
  may: May,
  whenSeen?: WhenSeen,
): Session | Failure {
  const { looksAt } = session
  const meant = request.headers.get(ACCOUNT_HEADER)
  if (looksAt?.seenUntil !== undefined && whenSeen !== "own") {
    if (changesSomething(request) || whenSeen === "refused") return new Failure("auth.read_only")
    // What is the person's own is the customer's own here.
    if (may === "self") return { ...session, personId: looksAt.accountId, accountId: looksAt.accountId }
  }
  if (may === "self") {
    // A page that still shows an account that is no longer seen must not end the operator's own sessions.
    const isStale = meant !== null && meant !== session.personId && meant !== looksAt?.accountId
    return isStale && changesSomething(request) ? new Failure("auth.other_account") : session
  }
  if (meant !== null && meant !== (looksAt?.accountId ?? session.personId)) return new Failure("auth.other_account")
  if (looksAt === undefined) return session
  if (looksAt.role === undefined) return new Failure("auth.membership_ended")
  const refusal = refusalOf(looksAt.role, may)
  if (refusal !== undefined) return refusal
  return { ...session, accountId: looksAt.accountId, timeZone: looksAt.timeZone, memberRole: looksAt.role }
}

/** Whether an operator sees the account as its customer does: without what may be a secret. */
export const isSeen = ({ looksAt }: Session): boolean => looksAt?.seenUntil !== undefined

/** Of an address that may have a secret in its path. */
export const withoutPath = (url: string): string => `${URL.parse(url)?.origin ?? ""}/…`

export interface Operator {
  readonly accountId: string
  readonly role: OperatorRole
  /** In which plain days are meant. */
  readonly timeZone: string
  /** Who acts, for the audit log. */
  readonly act: Act
}

/**
 * Makes the routes of operators, each with the least role that it is for. Everybody else who is signed in gets a 403, whatever
 * the route, so that nothing shows of what there is.
 */
export const operatorBy = (authenticate: Authenticate) =>
  routesFor<{ readonly operator: Operator; readonly session: Session }, { readonly role: OperatorRole }>(
    "session",
    async (request, needed) => {
      const session = await authenticate(request)
      if (session instanceof Failure) return session
      const { accountId, timeZone, operatorRole: role } = session
      if (role === undefined) return new Failure("auth.forbidden", { message: "This is for operators." })
      if (session.lacksFactor) return new Failure("auth.second_factor_required")
      if (!mayAct(role, needed.role)) {
        const message = `This is for operators of the role '${needed.role}'${needed.role === "owner" ? "" : " or above"}; yours is '${role}'.`
        return new Failure("auth.forbidden", { message })
      }
      if (session.looksAt?.seenUntil !== undefined && changesSomething(request)) return new Failure("auth.read_only")
      const { requestId, address } = contextOf(request)
      return { session, operator: { accountId, role, timeZone, act: { requestId, operatorId: accountId, address } } }
    },
    ({ operator: { accountId } }, sent, work) => authenticate.changes.once({ accountId, ...sent }, work),
  )

function presentedToken(request: Request): string | Failure {
  const authorization = request.headers.get("authorization") ?? ""
  const bearer = /^Bearer +(\S+) *$/i.exec(authorization)?.[1]
  if (bearer?.startsWith(API_KEY_PREFIX) || request.headers.get("x-api-key")?.startsWith(API_KEY_PREFIX)) {
    return new Failure("auth.unauthorized", {
      message: "An API key is not accepted here; sign in for a session token.",
    })
  }
  if (bearer !== undefined) return bearer
  const cookie = cookieToken(request)
  if (cookie === undefined || authorization !== "") return new Failure("auth.unauthorized")
  if (changesSomething(request) && !isOwnOrigin(request, request.headers.get("origin") ?? "")) {
    return new Failure("auth.forbidden", { message: "A call by cookie must come from the dashboard's own origin." })
  }
  return cookie
}

/** `__Host-` keeps other hosts of the domain from setting it, but needs https. */
const cookieName = (request: Request): string => (isPlainLoopback(request) ? "session" : "__Host-session")

export function cookieToken(request: Request): string | undefined {
  const name = cookieName(request)
  for (const pair of (request.headers.get("cookie") ?? "").split(";")) {
    const at = pair.indexOf("=")
    if (pair.slice(0, at).trim() === name) return pair.slice(at + 1).trim()
  }
  return undefined
}

/** The `Set-Cookie` of a new session; an empty token ends the cookie. */
export function sessionCookie(request: Request, token: string): string {
  const lifetime = token === "" ? 0 : SESSION_DAYS * 24 * 60 * 60
  const secure = isPlainLoopback(request) ? "" : "; Secure"
  return `${cookieName(request)}=${token}; Path=/; Max-Age=${lifetime}; HttpOnly; SameSite=Strict${secure}`
}

export const clientInfoOf = (request: Request): ClientInfo => ({
  address: contextOf(request).address,
  userAgent: request.headers.get("user-agent") ?? "",
})

const LOOPBACK = /^(?:localhost|.+\.localhost|127(?:\.\d+){3}|\[::1\])$/

/** Whether a listener on this name or address (without brackets) can be reached from this machine alone. */
export function isLoopback(host: string): boolean {
  const url = `http://${host.includes(":") ? `[${host}]` : host}`
  return URL.canParse(url) && LOOPBACK.test(new URL(url).hostname)
}

/** Plain http on loopback: where a browser refuses `__Host-` cookies, and where nobody can listen in. */
function isPlainLoopback(request: Request): boolean {
  const { protocol, hostname } = new URL(request.url)
  return protocol === "http:" && LOOPBACK.test(hostname)
}

/**
 * Whether the page that sent this is ours. The scheme is not compared with the request's, because behind a proxy that
 * ends TLS ours is always http; it must be https unless on loopback.
 */
export function isOwnOrigin(request: Request, origin: string): boolean {
  const page = URL.parse(origin)
  if (page === null || page.host !== new URL(request.url).host) return false
  return page.protocol === "https:" || isPlainLoopback(request)
}
