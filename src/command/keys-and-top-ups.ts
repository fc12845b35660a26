/** `loket key` and `loket topup`: customers' API keys; what they paid, what could not be credited, and the provider's own word. */
import { Option } from "@commander-js/extra-typings"
import { keyJson, keyState } from "../http/dashboard/key-json.ts"
import { KEY_ID, keyAfter, keyPlace, STATUS } from "../http/dashboard/keys.ts"
import { ID, pageJson, readPage } from "../http/dashboard/page.ts"
import { topUpStatuses, topUpSummary } from "../http/dashboard/top-ups.ts"
import { problemJson, topUpJson } from "../http/operator/payments.ts"
import { besideGateways, isTopUpId, openPayments, total, refundedTotal } from "../payments/top-ups.ts"
import { apiKeyStore } from "../store/api-keys.ts"
import type { Database } from "../store/database.ts"
import type { KeyRecord } from "../store/key-rows.ts"
import { type OwnedTopUp, paymentViews, type StoredProblem } from "../store/operator/payments.ts"
import type { PaymentProblem } from "../store/payment-problems.ts"
import { type TopUp, topUpStore } from "../store/top-ups.ts"
import * as beside from "./command.ts"
import { command, CommandFailure, progress } from "./command.ts"

const { accountNamed, minute, rp, sure, withDatabase } = beside

export const keyCommand = () =>
  command("key", {
    summary: "API keys of customers: list, show, revoke",
    examples: [["key list ana@mail.id", "those that work first"]],
  })
    .addCommand(listKeysCommand())
    .addCommand(showKeyCommand())
    .addCommand(revokeCommand())

const listKeysCommand = () =>
  command("list", {
    summary: "List an account's keys: those that work, the newest first, then revoked ones",
    examples: [["key list ana@mail.id --json", "for machines"]],
  })
    .argument("<account>", "an e-mail address or an id")
    .option("--limit <number>", "how many", beside.limit, beside.LIST_LIMIT)
    .option("--cursor <text>", "where the page before ended")
    .option("--json", "print JSON, as the API does")
    .action((name, { limit, cursor, json }) =>
      withDatabase(async (database) => {
        const page = sure(readPage({ limit, ...(cursor !== undefined && { cursor }) }, [STATUS, KEY_ID]))
        const after = keyAfter(page)
        const account = await accountNamed(database, name)
        const rows = await apiKeyStore(database).list(account.id, { after, limit: limit + 1 })
        const shown = pageJson(rows, page, { item: keyJson, placeOf: keyPlace })
        if (json === true) return beside.printJson(shown)
        printKeys(rows.slice(0, limit))
        beside.printNext(["key", "list", name], { limit }, shown.next_cursor)
      }),
    )

const showKeyCommand = () =>
  command("show", {
    summary: "Show one key: limits, spending, when it was last used",
    examples: [["key show key_V1StGXR8Z5jdHi6B", "by its id; `account list` finds a key's account by its beginning"]],
  })
    .argument("<key>", "a key's id")
    .option("--json", "print JSON, as the API does")
    .action((id, { json }) =>
      withDatabase(async (database) => {
        const { accountId, record } = await keyNamed(database, id)
        if (json === true) return beside.printJson({ ...keyJson(record), account_id: accountId })
        printKey(accountId, record)
      }),
    )

const revokeCommand = () =>
  command("revoke", {
    summary: "Revoke a key, for good",
    details: "Gateways refuse it within a second. The audit log has it.",
    examples: [['key revoke key_V1StGXR8Z5jdHi6B --reason "leaked on GitHub"', "it answers 401 from then on"]],
  })
    .argument("<key>", "a key's id")
    .requiredOption("--reason <text>", "for whoever reads the log later", beside.reason)
    .option("--json", "print the key as JSON")
    .action((id, { reason, json }) =>
      withDatabase(async (database) => {
        const { accountId } = await keyNamed(database, id)
        const by = { act: beside.commandAct(), reason }
        const record = await apiKeyStore(database).revoke({ accountId, keyId: id }, by)
        if (record === undefined) throw noKey(id)
        if (json === true) return beside.printJson({ ...keyJson(record), account_id: accountId })
        console.log(`${id} of ${accountId}: revoked ${minute(record.revokedAt)}`)
      }),
    )

async function keyNamed(database: Database, id: string): Promise<{ accountId: string; record: KeyRecord }> {
  const keys = apiKeyStore(database)
  const accountId = KEY_ID.test(id) ? await keys.ownerOf(id) : undefined
  const record = accountId === undefined ? undefined : await keys.read({ accountId, keyId: id })
  if (accountId === undefined || record === undefined) throw noKey(id)
  return { accountId, record }
}

/** A whole key is a secret, which no terminal should keep. */
const noKey = (id: string): CommandFailure =>
  new CommandFailure(
    id.startsWith("sk-")
      ? "that is a key and not its id; `loket account list` with its first 13 characters finds whose it is"
      : `there is no key ${id}; \`loket key list <account>\` shows ids`,
  )

function printKey(accountId: string, key: KeyRecord): void {
  const { budget } = key
  beside.printFields({
    id: key.id,
    account: accountId,
    name: key.name,
    key: hint(key),
    status: key.revokedAt === undefined ? keyState(key) : `revoked ${minute(key.revokedAt)}`,
    created: minute(key.createdAt),
    "last used": minute(key.lastUsedAt),
    "requests a minute": String(key.requestsPerMinute ?? "-"),
    "tokens a minute": String(key.tokensPerMinute ?? "-"),
    budget: budget === undefined ? "-" : `${rp(budget.spentMicro)} of ${rp(budget.limitMicro)}, ${budget.period}`,
    fallback: key.fallback,
    "retries of SDKs": key.replaysRetries ? "get the first answer" : "calls like any other",
    expires: key.expiresAt === null ? "-" : minute(key.expiresAt),
    models: key.models?.join(", ") ?? "all",
    endpoints: key.endpoints?.join(", ") ?? "all",
    networks: key.networks?.join(", ") ?? "all",
    pages: key.origins?.join(", ") ?? "none",
    "largest rate": key.maxRateMicro === null ? "-" : `Rp ${key.maxRateMicro} for a million tokens`,
  })
}

const hint = ({ prefix, last4 }: KeyRecord): string => `${prefix}…${last4}`

export function printKeys(keys: readonly KeyRecord[]): void {
  if (keys.length === 0) return
  beside.printTable(
    ["key id", "name", "key", "created", "last used", "status"],
    keys.map((key) => [key.id, key.name, hint(key), minute(key.createdAt), minute(key.lastUsedAt), keyState(key)]),
  )
}

export const topUpCommand = () =>
  command("topup", {
    summary: "Payments: list, show, check with the provider, problems, resolve",
    examples: [["topup list --status pending", "who has not paid yet"]],
  })
    .addCommand(listTopUpsCommand())
    .addCommand(showTopUpCommand())
    .addCommand(checkCommand())
    .addCommand(problemsCommand())
    .addCommand(resolveCommand())

const listTopUpsCommand = () =>
  command("list", {
    summary: "List everybody's top-ups, or an account's, the newest first",
    examples: [["topup list --status paid --limit 10", "the last ten that were paid"]],
  })
    .option("--account <account>", "only those of this e-mail address or id")
    .addOption(new Option("--status <status>", "only these").choices(topUpStatuses))
    .option("--limit <number>", "how many", beside.limit, beside.LIST_LIMIT)
    .option("--cursor <text>", "where the page before ended")
    .option("--json", "print JSON, as the operator's API does")
    .action(({ account, status, limit, cursor, json }) =>
      withDatabase(async (database) => {
        const accountId = account === undefined ? undefined : (await beside.accountNamed(database, account)).id
        const page = sure(readPage({ limit, ...(cursor !== undefined && { cursor }) }, [/^top_[A-Za-z0-9_-]{1,40}$/]))
        const [after] = page.after ?? []
        const rows = await paymentViews(database).topUps({ accountId, status, after, limit: limit + 1 })
        const shown = pageJson(rows, page, { item: topUpJson, placeOf: ({ id }) => [id] })
        if (json === true) return beside.printJson(shown)
        printTopUps(rows.slice(0, limit))
        beside.printNext(["topup", "list"], { account, status, limit }, shown.next_cursor)
      }),
    )

const showTopUpCommand = () =>
  command("show", {
    summary: "Show one top-up",
    examples: [["topup show top_V1StGXR8Z5jdHi6B", "what was bought, what was paid and when"]],
  })
    .argument("<topup>", "a top-up's id")
    .option("--json", "print JSON, as the API does")
    .action((id, { json }) => withDatabase(async (database) => print(await topUpNamed(database, id), json)))

const checkCommand = () =>
  command("check", {
    summary: "Ask the payment provider now, and credit what was paid",
    examples: [["topup check top_V1StGXR8Z5jdHi6B", "for a customer who says that he has paid"]],
  })
    .argument("<topup>", "a top-up's id")
    .option("--json", "print JSON, as the API does")
    .action((id, { json }) =>
      withDatabase(async (database, config) => {
        const topUp = await topUpNamed(database, id)
        // Gateways hear of a credit by the database's own notice.
        const { topUps, providers } = openPayments(config, database, besideGateways(database, warnOfProblem))
        if (providers.find((provider) => provider.id === topUp.provider)?.readStatus === undefined)
          throw new CommandFailure(`${topUp.provider} cannot be asked: it keeps no list of payments`)
        sure(await progress(`asking ${topUp.provider}`, topUps.check(topUp)))
        print(await topUpNamed(database, id), json)
      }),
    )

const problemsCommand = () =>
  command("problems", {
    summary: "List payments that need an operator: not credited, taken back by a bank, or for a closed account",
    examples: [["topup problems", "those that nobody has seen to"]],
  })
    .option("--all", "also those that were resolved")
    .option("--limit <number>", "how many", beside.limit, beside.LIST_LIMIT)
    .option("--cursor <text>", "where the page before ended")
    .option("--json", "print JSON, as the operator's API does")
    .action(({ all, limit, cursor, json }) =>
      withDatabase(async (database) => {
        const page = sure(readPage({ limit, ...(cursor !== undefined && { cursor }) }, [ID]))
        const [before] = (page.after ?? []).map(BigInt)
        const rows = await paymentViews(database).problems({ all: all === true, before, limit: limit + 1 })
        const shown = pageJson(rows, page, { item: problemJson, placeOf: ({ id }) => [String(id)] })
        if (json === true) return beside.printJson(shown)
        printProblems(rows.slice(0, limit))
        beside.printNext(["topup", "problems", all && "--all"], { limit }, shown.next_cursor)
      }),
    )

const resolveCommand = () =>
  command("resolve", {
    summary: "Say what was done about a payment problem",
    examples: [['topup resolve 12 --note "refunded by bank transfer"', "12 is of `loket topup problems`"]],
  })
    .argument("<problem>", "a problem's number")
    .requiredOption("--note <text>", "for whoever reads it later", beside.reason)
    .action((number, { note }) =>
      withDatabase(async (database) => {
        const views = paymentViews(database)
        const id = ID.test(number) ? BigInt(number) : undefined
        if (id === undefined || (await views.problem(id)) === undefined)
          throw new CommandFailure(`there is no payment problem ${number}; \`loket topup problems\` lists them`)
        await views.resolve(id, note, beside.commandAct())
        const kept = (await views.problem(id))?.resolution?.note ?? note
        // Two who resolve one may both have credited it.
        const again = "resolved before, and this note is not kept; look whether it was credited twice"
        console.log(`${number}: ${kept === note ? "resolved" : again}: ${kept}`)
      }),
    )

const warnOfProblem = ({ kind }: PaymentProblem) =>
  console.error(`an operator has to see to it (${kind}): \`loket topup problems\``)

async function topUpNamed(database: Database, id: string): Promise<TopUp> {
  const found = isTopUpId(id) ? await topUpStore(database).find(id) : undefined
  if (found === undefined) throw new CommandFailure(`there is no top-up ${id}; \`loket topup list\` shows ids`)
  return found
}

function print(topUp: TopUp, json: true | undefined): void {
  if (json === true) return beside.printJson({ ...topUpSummary(topUp), account_id: topUp.accountId })
  beside.printFields({
    id: topUp.id,
    account: topUp.accountId,
    status: topUp.disputed ? "paid, disputed" : topUp.status,
    bought: rp(topUp.breakdown.balancePurchasedMicro),
    "to be paid": `${rp(total(topUp.breakdown))}, fees included`,
    provider: topUp.provider,
    reference: topUp.reference ?? "-",
    created: minute(topUp.createdAt),
    expires: minute(topUp.expiresAt),
    paid: minute(topUp.paidAt),
    "went back": refundedTotal(topUp) === 0n ? "-" : rp(refundedTotal(topUp)),
  })
}

export function printTopUps(topUps: readonly (TopUp | OwnedTopUp)[]): void {
  if (topUps.length === 0) return
  beside.printTable(
    ["top-up id", "account", "bought", "status", "went back", "provider", "created", "paid"],
    topUps.map((topUp) => [
      topUp.id,
      "email" in topUp ? topUp.email : topUp.accountId,
      rp(topUp.breakdown.balancePurchasedMicro),
      topUp.disputed ? "paid, disputed" : topUp.status,
      refundedTotal(topUp) === 0n ? "-" : rp(refundedTotal(topUp)),
      topUp.provider,
      minute(topUp.createdAt),
      minute(topUp.paidAt),
    ]),
    ["bought"],
  )
}

function printProblems(problems: readonly StoredProblem[]): void {
  if (problems.length === 0) return console.log("none")
  beside.printTable(
    ["number", "what", "paid", "provider", "reference", "account", "last seen", "resolved"],
    problems.map((problem) => [
      String(problem.id),
      problem.kind,
      problem.paid,
      problem.provider,
      problem.reference,
      problem.accountId ?? "-",
      minute(problem.lastSeenAt),
      minute(problem.resolution?.at),
    ]),
    ["number"],
  )
}
