/**
 * The dashboard's API as it runs, on a real database and over real HTTP: every controller behind the edge, with what it
 * tells the live side written down.
 */
import { expect } from "bun:test"
import { Elysia } from "elysia"
import { Accounts } from "../../../src/accounts/accounts.ts"
import { Breakers } from "../../../src/accounts/breakers.ts"
import type { KeysChanged } from "../../../src/accounts/in-force.ts"
import { Keys } from "../../../src/accounts/keys.ts"
import { Members } from "../../../src/accounts/members.ts"
import { Links } from "../../../src/accounts/links.ts"
import { OwnerMail } from "../../../src/accounts/owner-mail.ts"
import { Passwords } from "../../../src/accounts/fields.ts"
import { Passkeys, relyingParty } from "../../../src/accounts/passkeys.ts"
import { SecondFactors } from "../../../src/accounts/second-factor.ts"
import { SignUpLimiter, PasswordThrottle, throttleLimits } from "../../../src/accounts/rate-limits.ts"
import { TrialCredits, type TrialCreditLimits } from "../../../src/accounts/adjustments.ts"
import { Changes } from "../../../src/http/changes.ts"
import { contextOf, edge, edgeHandler, failureOf, failureResponse, firstRequestId } from "../../../src/http/edge.ts"
import { clientAddress } from "../../../src/http/connection.ts"
import { accountController } from "../../../src/http/dashboard/account.ts"
import { authController, sessionsController } from "../../../src/http/dashboard/auth.ts"
import type { Seller } from "../../../src/http/dashboard/document-content.ts"
import { documentsController } from "../../../src/http/dashboard/documents.ts"
import { breakerController } from "../../../src/http/dashboard/breaker.ts"
import { membersController } from "../../../src/http/dashboard/members.ts"
import { keysController } from "../../../src/http/dashboard/keys.ts"
import { passkeysController } from "../../../src/http/dashboard/passkeys.ts"
import { secondFactorController } from "../../../src/http/dashboard/second-factor.ts"
import { priceChangesController } from "../../../src/http/dashboard/price-changes.ts"
import { authenticator } from "../../../src/http/dashboard/session.ts"
import { simulatedPayController, webhooksController } from "../../../src/http/dashboard/payments.ts"
import { topUpsController } from "../../../src/http/dashboard/top-ups.ts"
import { statementController } from "../../../src/http/dashboard/statement.ts"
import { webhookController } from "../../../src/http/dashboard/webhook.ts"
import { outbox } from "../../../src/store/outbox.ts"
import { webhookStore } from "../../../src/store/account-events.ts"
import { usageController } from "../../../src/http/dashboard/usage.ts"
import { openapiDocument } from "../../../src/http/openapi.ts"
import type { Log } from "../../../src/log.ts"
import { type Fees, noFees, TopUps } from "../../../src/payments/top-ups.ts"
import { type PaymentProvider, simulatedProvider } from "../../../src/payments/provider.ts"
import { Refunds } from "../../../src/payments/refunds.ts"
import { accountMailStore } from "../../../src/store/account-mails.ts"
import { allowanceStore, type SignUpLimits, signUpStore, trialCreditStore } from "../../../src/store/allowances.ts"
import { installationSecret } from "../../../src/store/processes.ts"
import { memberStore } from "../../../src/store/members.ts"
import { accountStore } from "../../../src/store/accounts.ts"
import { apiKeyStore } from "../../../src/store/api-keys.ts"
import { breakerStore } from "../../../src/store/breakers.ts"
import { priceChangeStore } from "../../../src/store/announcements.ts"
import { paymentProblemStore } from "../../../src/store/payment-problems.ts"
import { secondFactorStore } from "../../../src/store/second-factors.ts"
import { passkeyStore } from "../../../src/store/passkeys.ts"
import { sessionStore } from "../../../src/store/sessions.ts"
import { refundStore } from "../../../src/store/refunds.ts"
import { topUpStore } from "../../../src/store/top-ups.ts"
import { readFirstTokens } from "../../../src/store/first-tokens.ts"
import { usageSumStore } from "../../../src/store/usage-sums.ts"
import { idempotencyKeyStore } from "../../../src/store/idempotency-keys.ts"
import { documentStore } from "../../../src/store/documents.ts"
import { movementStore } from "../../../src/store/movements.ts"
import { spendingAlertStore } from "../../../src/store/alerts.ts"
import { usageStore } from "../../../src/store/usage.ts"
import { openTestDatabase } from "../../store/harness.ts"
import { problemsOf } from "../documented.ts"

export const SECRET = "a secret of the tests"
export const PASSWORD = "correct horse battery"
export const LEGAL_VERSION = "0123456789ab"

/** As cheap as argon2id goes. */
export const cheap = { memoryKiB: 8, passes: 1 }

export interface WorldOptions {
  readonly fees?: Fees
  readonly provider?: PaymentProvider
  readonly secret?: string | undefined
  readonly mostKeys?: number
  /** Whether addresses are proved by mail. */
  readonly sendsLinks?: boolean
  readonly trial?: TrialCreditLimits
  readonly signUps?: SignUpLimits
  /** The client's address, as it is told in this header. */
  readonly addressHeader?: string
  /** Read at each start of the world, and changed by tests. */
  readonly seller?: Seller
  readonly publicUrl?: string
  /** Where files of old months are. */
  readonly archives?: string
}

export async function openWorld(options: WorldOptions = {}) {
  const database = await openTestDatabase()
  const told: { keyId: string; keyHash: string }[] = []
  const credited: string[] = []
  const recalled: string[] = []
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
  const warnings: unknown[] = []
  const log: Log = { debug() {}, info() {}, warn() {}, error: (...words) => void bugs.push(words) }

  const { db } = database
  const sessions = sessionStore(db)
  const passwords = new Passwords(cheap)
  const mails = accountMailStore(db)
  const allowances = allowanceStore(db)
  const mail = new OwnerMail({ store: mails, allowances, isOn: options.sendsLinks ?? false, log })
  const factorStore = secondFactorStore(db)
  const slowDown = new PasswordThrottle(throttleLimits, now, pause)
  const accounts = new Accounts({
    accounts: accountStore(db),
    sessions,
    passwords,
    mail,
    factors: factorStore,
    allowances,
    operatorsNeedFactor: true,
    signUps: new SignUpLimiter(signUpStore(db), options.signUps ?? { perHour: 60, perDay: 300 }, now, sleep),
    slowDown,
    keysChanged,
    accountChanged() {},
  })
  const changes = new Changes({
    store: idempotencyKeyStore(db),
    processId: "proc_world",
    failed: (error) => void bugs.push(error),
    now,
  })
  const authenticate = authenticator(accounts, changes)
  const passkeyRows = passkeyStore(db)
  const passkeys = new Passkeys({
    store: passkeyRows,
    party: () => relyingParty(options.publicUrl, server.port ?? 0),
    log: { ...log, warn: (...words) => void warnings.push(words) },
  })
  const factors = new SecondFactors({
    accounts,
    store: factorStore,
    passkeys,
    passkeyStore: passkeyRows,
    slowDown,
    sessions,
    allowances,
    now,
  })
  const links = new Links({
    accounts,
    store: mails,
    sessions,
    passwords,
    mail,
    trial: new TrialCredits({
      terms: options.trial,
      store: trialCreditStore(db),
      secret: () => installationSecret(db, "trial-credits"),
      credited: (accountId) => void credited.push(accountId),
      failed: (error) => void bugs.push(error),
    }),
    keysChanged,
    accountChanged() {},
    failed: (error) => void bugs.push(error),
  })
  const sums = usageSumStore(db)
  const provider = options.provider ?? simulatedProvider({ secret: "secret" in options ? options.secret : SECRET })
  const store = topUpStore(db)
  const problems = paymentProblemStore(db)
  const refundsStore = refundStore(db)
  const refunds = new Refunds({
    store: refundsStore,
    topUps: store,
    providers: [provider],
    needsOperator: () => {},
    recall: (accountId) => void recalled.push(accountId),
    changed: () => {},
  })
  const topUps = new TopUps({
    store,
    problems,
    provider,
    providers: [provider],
    fees: options.fees ?? noFees,
    refunds,
    credited: (accountId) => void credited.push(accountId),
    needsOperator: () => {},
  })
  const app = new Elysia()
    .use(edge)
    .onError(({ error, request }) => {
      const { requestId } = contextOf(request)
      return failureResponse(failureOf(error, requestId, log), requestId)
    })
    .use(authController({ accounts, links, authenticate, legalVersion: LEGAL_VERSION }))
    .use(secondFactorController({ factors, authenticate }))
    .use(passkeysController({ factors, passkeys, authenticate }))
    .use(accountController({ accounts, sums, allowances, authenticate, legalVersion: LEGAL_VERSION }))
    .use(sessionsController({ accounts, authenticate }))
    .use(
      membersController({
        authenticate,
        members: new Members({
          store: memberStore(db),
          accounts,
          sessions,
          mail,
          allowances,
          accountChanged() {},
        }),
      }),
    )
    .use(webhookController({ webhooks: webhookStore(db), outbox: outbox(db, true), authenticate }))
    .use(
      keysController({
        keys: new Keys({
          store: apiKeyStore(db),
          keysChanged,
          accountChanged() {},
          originsChanged: async () => {},
          mostKeys: options.mostKeys ?? 200,
          isModel: (id) => id.startsWith("model-"),
          live: async () => undefined,
        }),
        authenticate,
      }),
    )
    .use(
      breakerController({
        breakers: new Breakers({
          store: breakerStore(db),
          alerts: spendingAlertStore({ database: db, sendsMail: true, tells: false, firstId: firstRequestId }),
          accountChanged() {},
          keysChanged,
          ceilingChanged() {},
        }),
        allowances,
        authenticate,
      }),
    )
    .use(topUpsController({ topUps, store, refunds: refundsStore, authenticate }))
    .use(webhooksController({ topUps, providers: [provider] }))
    .use(
      simulatedPayController({
        topUps,
        store,
        secret: "secret" in options ? options.secret : SECRET,
        charges: provider.id === "simulated",
      }),
    )
    .use(
      usageController({
        usage: usageStore(db, options.archives ?? "/nowhere"),
        sums,
        firstTokens: (question) => readFirstTokens(db, question),
        authenticate,
      }),
    )
    .use(priceChangesController({ priceChanges: priceChangeStore(db), authenticate }))
    .use(statementController({ accounts, movements: movementStore(db), sums, authenticate, now }))
    .use(
      documentsController({
        accounts,
        movements: movementStore(db),
        sums,
        authenticate,
        now,
        documents: documentStore(db),
        topUps: store,
        refunds: refundsStore,
        allowances,
        seller: options.seller,
      }),
    )

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
    /** In milliseconds, as the world's clock has it; it goes by this much. */
    pass: (ms: number) => (time += ms),
    now,
    bugs,
    /** What was logged as a warning of passkeys. */
    warnings,
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
