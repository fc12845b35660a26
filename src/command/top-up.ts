/** `loket topup`: what customers paid, what came and could not be credited, and the payment provider's own word. */
import { Option } from "@commander-js/extra-typings"
import { topUpStatuses, topUpSummary } from "../http/dashboard/top-ups.ts"
import { pageJson, readPage } from "../http/dashboard/page.ts"
import { problemJson, topUpJson } from "../http/operator/payments.ts"
import { besideGateways, isTopUpId, openPayments, total } from "../payments/top-ups.ts"
import type { Database } from "../store/database.ts"
import { type OwnedTopUp, paymentViews, type StoredProblem } from "../store/operator/payments.ts"
import { type TopUp, topUpStore } from "../store/top-ups.ts"
import * as beside from "./command.ts"
import { command, CommandFailure, progress } from "./command.ts"

const { minute, rp, sure, withDatabase } = beside
const PROBLEMS_SHOWN = 100

export const topUpCommand = () =>
  command("topup", {
    summary: "Payments: list, show, check with the provider, problems, resolve",
    examples: [["topup list --status pending", "who has not paid yet"]],
  })
    .addCommand(listCommand())
    .addCommand(showCommand())
    .addCommand(checkCommand())
    .addCommand(problemsCommand())
    .addCommand(resolveCommand())

const listCommand = () =>
  command("list", {
    summary: "List everybody's top-ups, the newest first",
    examples: [["topup list --status paid --limit 10", "the last ten that were paid"]],
  })
    .addOption(new Option("--status <status>", "only these").choices(topUpStatuses))
    .option("--limit <number>", "how many", beside.limit, beside.LIST_LIMIT)
    .option("--cursor <text>", "where the page before ended")
    .option("--json", "print JSON, as the operator's API does")
    .action(({ status, limit, cursor, json }) =>
      withDatabase(async (database) => {
        const page = sure(readPage({ limit, ...(cursor !== undefined && { cursor }) }, [/^top_[A-Za-z0-9_-]{1,40}$/]))
        const [after] = page.after ?? []
        const rows = await paymentViews(database).topUps({ status, after, limit: limit + 1 })
        const shown = pageJson(rows, page, { item: topUpJson, placeOf: ({ id }) => [id] })
        if (json === true) return beside.printJson(shown)
        printTopUps(rows.slice(0, limit))
        if (shown.next_cursor !== null) console.log(`\nmore: loket topup list --cursor ${shown.next_cursor}`)
      }),
    )

const showCommand = () =>
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
        const { topUps, providers } = openPayments(config, database, besideGateways(database))
        if (providers.find((provider) => provider.id === topUp.provider)?.readStatus === undefined)
          throw new CommandFailure(`${topUp.provider} cannot be asked: it keeps no list of payments`)
        sure(await progress(`asking ${topUp.provider}`, topUps.check(topUp)))
        print(await topUpNamed(database, id), json)
      }),
    )

const problemsCommand = () =>
  command("problems", {
    summary: "List payments that came and could not be credited",
    examples: [["topup problems", "those that nobody has seen to"]],
  })
    .option("--all", "also those that were resolved")
    .option("--json", "print JSON, as the operator's API does")
    .action(({ all, json }) =>
      withDatabase(async (database) => {
        const found = await paymentViews(database).problems({
          all: all === true,
          before: undefined,
          limit: PROBLEMS_SHOWN,
        })
        if (json === true) return beside.printJson({ data: found.map(problemJson) })
        printProblems(found)
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
        const id = /^\d{1,18}$/.test(number) ? BigInt(number) : undefined
        if (id === undefined || (await views.problem(id)) === undefined)
          throw new CommandFailure(`there is no payment problem ${number}; \`loket topup problems\` lists them`)
        await views.resolve(id, note, beside.commandAct())
        console.log(`${number}: resolved: ${(await views.problem(id))?.resolution?.note ?? note}`)
      }),
    )

async function topUpNamed(database: Database, id: string): Promise<TopUp> {
  const found = isTopUpId(id) ? await topUpStore(database).find(id) : undefined
  if (found === undefined) throw new CommandFailure(`there is no top-up ${id}; \`loket topup list\` shows ids`)
  return found
}

function print(topUp: TopUp, json: true | undefined): void {
  if (json === true) return beside.printJson({ ...topUpSummary(topUp), account_id: topUp.accountId })
  const { breakdown } = topUp
  beside.printFields({
    id: topUp.id,
    account: topUp.accountId,
    status: topUp.status,
    bought: rp(breakdown.balancePurchasedMicro),
    "to be paid": `${rp(total(breakdown))}, fees included`,
    provider: topUp.provider,
    reference: topUp.reference ?? "-",
    created: minute(topUp.createdAt),
    expires: minute(topUp.expiresAt),
    paid: minute(topUp.paidAt),
  })
}

export function printTopUps(topUps: readonly (TopUp | OwnedTopUp)[]): void {
  if (topUps.length === 0) return
  beside.printTable(
    ["top-up id", "account", "bought", "status", "provider", "created", "paid"],
    topUps.map((topUp) => [
      topUp.id,
      "email" in topUp ? topUp.email : topUp.accountId,
      rp(topUp.breakdown.balancePurchasedMicro),
      topUp.status,
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
