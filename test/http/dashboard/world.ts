/**
 * The dashboard's API as it runs, on a real database and over real HTTP: every controller behind the edge, with what it
 * tells the live side written down.
 */
import { expect } from "bun:test"
import { Elysia } from "elysia"
import { Accounts, type KeysChanged } from "../../../src/accounts/accounts.ts"
import { Keys } from "../../../src/accounts/keys.ts"
import { Passwords } from "../../../src/accounts/password.ts"
import { SlowDown, slowDownTerms } from "../../../src/accounts/slow-down.ts"
import { SignUps } from "../../../src/accounts/sign-ups.ts"
import { clientAddress } from "../../../src/http/connection.ts"
import { accountController } from "../../../src/http/dashboard/account.ts"
import { authController } from "../../../src/http/dashboard/auth.ts"
import { keysController } from "../../../src/http/dashboard/keys.ts"
import { authenticator } from "../../../src/http/dashboard/session.ts"
import { simulatedPayController, webhooksController } from "../../../src/http/dashboard/payments.ts"
import { topUpsController } from "../../../src/http/dashboard/top-ups.ts"
import { statementController } from "../../../src/http/dashboard/statement.ts"
import { usageController } from "../../../src/http/dashboard/usage.ts"
import { openapiDocument } from "../../../src/http/openapi.ts"
import { contextOf, edge, edgeHandler, failureOf } from "../../../src/http/edge.ts"
import { failureResponse } from "../../../src/http/errors.ts"
import type { Log } from "../../../src/log.ts"
import { type Fees, noFees } from "../../../src/payments/breakdown.ts"
import type { PaymentProvider } from "../../../src/payments/provider.ts"
import { simulatedProvider } from "../../../src/payments/simulated.ts"
import { TopUps } from "../../../src/payments/top-ups.ts"
import { accountStore } from "../../../src/store/accounts.ts"
import { apiKeyStore } from "../../../src/store/api-keys.ts"
import { paymentProblemStore } from "../../../src/store/payment-problems.ts"
import { type SignUpLimits, signUpStore } from "../../../src/store/sign-ups.ts"
import { sessionStore } from "../../../src/store/sessions.ts"
import { topUpStore } from "../../../src/store/top-ups.ts"
import { usageSumStore } from "../../../src/store/usage-sums.ts"
import { movementStore } from "../../../src/store/movements.ts"
import { usageStore } from "../../../src/store/usage.ts"
import { openTestDatabase } from "../../store/harness.ts"
import { problemsOf } from "../documented.ts"

export const SECRET = "a secret of the tests"
export const PASSWORD = "correct horse battery"

/** As cheap as argon2id goes. */
export const cheap = { memoryKiB: 8, passes: 1 }

export interface WorldOptions {
  readonly fees?: Fees
  readonly provider?: PaymentProvider
  readonly secret?: string | undefined
  readonly mostKeys?: number
  readonly signUps?: SignUpLimits
  /** The client's address, as it is told in this header. */
  readonly addressHeader?: string
}

export async function openWorld(options: WorldOptions = {}) {
  const database = await openTestDatabase()
  const told: { keyId: string; keyHash: string }[] = []
  const credited: string[] = []
  const pauses: number[] = []
  const pause = async (ms: number) => void pauses.push(ms)
  /** Time that passes only by waiting. */
  let time = Date.now()
  const now = () => time
  const sleep = async (ms: number) => {
    time += ms
    pauses.push(ms)
  }
  const keysChanged: KeysChanged = async (changed) => {
    told.push(...changed.map(({ id, keyHash }) => ({ keyId: id, keyHash: Buffer.from(keyHash).toString("hex") })))
    return world.inForce
  }

  const bugs: unknown[] = []
  const log: Log = { debug() {}, info() {}, warn() {}, error: (...words) => void bugs.push(words) }

  const { db } = database
  const accounts = new Accounts({
    accounts: accountStore(db),
    sessions: sessionStore(db),
    passwords: new Passwords(cheap),
    signUps: new SignUps(signUpStore(db), options.signUps ?? { perHour: 60, perDay: 300 }, now, sleep),
    slowDown: new SlowDown(slowDownTerms, now, pause),
    keysChanged,
    accountChanged() {},
  })
  const authenticate = authenticator(accounts)
  const sums = usageSumStore(db)
  const provider = options.provider ?? simulatedProvider({ secret: "secret" in options ? options.secret : SECRET })
  const store = topUpStore(db)
  const topUps = new TopUps({
    store,
    problems: paymentProblemStore(db),
    provider,
    providers: [provider],
    fees: options.fees ?? noFees,
    credited: (accountId) => void credited.push(accountId),
  })
  const app = new Elysia()
    .use(edge)
    .onError(({ error, request }) => {
      const { requestId } = contextOf(request)
      return failureResponse(failureOf(error, requestId, log), requestId)
    })
    .use(authController({ accounts, authenticate }))
    .use(accountController({ accounts, sums, authenticate }))
    .use(
      keysController({
        keys: new Keys({
          store: apiKeyStore(db),
          keysChanged,
          accountChanged() {},
          mostKeys: options.mostKeys ?? 200,
          live: async () => undefined,
        }),
        authenticate,
      }),
    )
    .use(topUpsController({ topUps, store, authenticate }))
    .use(webhooksController({ topUps, providers: [provider] }))
    .use(
      simulatedPayController({
        topUps,
        store,
        secret: "secret" in options ? options.secret : SECRET,
        charges: provider.id === "simulated",
      }),
    )
    .use(usageController({ usage: usageStore(db), sums, authenticate }))
    .use(statementController({ accounts, movements: movementStore(db), sums, authenticate, now }))

  const handle = edgeHandler(app, { log, now: Date.now })
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request, self) =>
      handle(request, () =>
        clientAddress(request.headers, self.requestIP(request)?.address ?? "", options.addressHeader),
      ),
  })

  const document = openapiDocument(app.routes)
  /** Every answer is held against the document. */
  const call = async (method: string, path: string, { token, body, headers }: CallOptions = {}) => {
    const response = await fetch(new URL(path, server.url), {
      method,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    })
    const text = await response.text()
    const isJson = response.headers.get("content-type")?.startsWith("application/json")
    const json = isJson ? JSON.parse(text) : undefined
    const { pathname } = new URL(response.url)
    if (isJson && response.status !== 404 && response.status !== 405)
      expect(problemsOf(document, { method, path: pathname, status: response.status, json })).toEqual([])
    return { status: response.status, headers: response.headers, text, json }
  }
  const signUp = async (email = `${crypto.randomUUID()}@example.com`) => {
    const { status, json } = await call("POST", "/auth/sign-up", { body: { email, password: PASSWORD } })
    if (status !== 201) throw new Error(`sign-up answered ${status}`)
    return { id: json.account.id as string, email, token: json.session_token as string }
  }

  const world = {
    ...database,
    /** Whether what is changed is in force in time. */
    inForce: true,
    origin: server.url.origin,
    app,
    topUps,
    call,
    signUp,
    told,
    credited,
    pauses,
    bugs,
    async [Symbol.asyncDispose]() {
      await server.stop(true)
      await database.close()
    },
  }
  return world
}

export type World = Awaited<ReturnType<typeof openWorld>>

export interface CallOptions {
  readonly token?: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** A notification of the simulated provider, signed as the provider signs it. */
export const notification = (body: unknown, secret = SECRET) => {
  const text = JSON.stringify(body)
  return {
    body: text,
    headers: { "X-Signature": new Bun.CryptoHasher("sha256", secret).update(text).digest("hex") },
  }
}
