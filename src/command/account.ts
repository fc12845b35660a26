/** `loket account`: customers, what they have, and what an operator may do about it. */
import { InvalidArgumentError } from "@commander-js/extra-typings"
import { nanoid } from "nanoid"
import { type Micro, MICRO_PER_RUPIAH, minus, plus, zero } from "../../actors/money/micro.ts"
import { Adjustments, NotAdjusted } from "../accounts/adjustments.ts"
import { linkTo } from "../accounts/owner-mail.ts"
import { createSessionToken } from "../accounts/bearer-tokens.ts"
import type { Config } from "../config.ts"
import { Failure } from "../failure/failure.ts"
import { ACCOUNT_ID } from "../http/operator/accounts.ts"
import { accountJson } from "../http/operator/account-json.ts"
import { keyJson } from "../http/dashboard/key-json.ts"
import { memberJson } from "../http/dashboard/members.ts"
import { pageJson, readPage } from "../http/dashboard/page.ts"
import { topUpSummary } from "../http/dashboard/top-ups.ts"
import { besideGateways } from "../payments/top-ups.ts"
import { accountMailStore } from "../store/account-mails.ts"
import { accountStore } from "../store/accounts.ts"
import { apiKeyStore } from "../store/api-keys.ts"
import { archivesIn } from "../store/archives.ts"
import type { Database } from "../store/database.ts"
import { memberStore } from "../store/members.ts"
import { type AccountView, accountViews } from "../store/operator/accounts.ts"
import type { Adjustment } from "../store/operator/adjustments.ts"
import { secondFactorStore } from "../store/second-factors.ts"
import { topUpStore } from "../store/top-ups.ts"
import * as beside from "./command.ts"
import { command, CommandFailure } from "./command.ts"
import { printKeys, printTopUps } from "./keys-and-top-ups.ts"

const { accountNamed, commandAct, minute, rp, sure, withDatabase } = beside
/** Of keys, and of top-ups. */
const SHOWN = 100

export const accountCommand = () =>
  command("account", {
    summary: "Customers: list, show, freeze, unfreeze, adjust, reset-password, reset-second-factor",
    details: "An account is named by its e-mail address or its id. Every change is in the audit log.",
    examples: [
      ["account list gmail", "whose address has gmail in it"],
      ["account show ana@mail.id", "balance, keys and top-ups"],
    ],
  })
    .addCommand(listCommand())
    .addCommand(showCommand())
    .addCommand(freezeCommand())
    .addCommand(unfreezeCommand())
    .addCommand(adjustCommand())
    .addCommand(resetPasswordCommand())
    .addCommand(resetSecondFactorCommand())

const listCommand = () =>
  command("list", {
    summary: "List accounts, the newest first",
    examples: [
      ["account list", "the newest 50"],
      ["account list sk-loket-abc --json", "whose key begins so"],
    ],
  })
    .argument(
      "[query]",
      "part of an e-mail address, the beginning of an id or a key, or a call's or a top-up's whole id",
    )
    .option("--limit <number>", "how many", beside.limit, beside.LIST_LIMIT)
    .option("--cursor <text>", "where the page before ended")
    .option("--json", "print JSON, as the operator's API does")
    .action((query, { limit, cursor, json }) =>
      withDatabase(async (database, { DATA_DIR }) => {
        const page = sure(readPage({ limit, ...(cursor !== undefined && { cursor }) }, [ACCOUNT_ID]))
        const [after] = page.after ?? []
        const search = { query: query?.trim().normalize("NFC") || undefined, after, limit: limit + 1 }
        const rows = await accountViews(database, archivesIn(DATA_DIR)).search(search)
        const shown = pageJson(rows, page, { item: accountJson, placeOf: ({ id }) => [id] })
        if (json === true) return beside.printJson(shown)
        printAccounts(rows.slice(0, limit))
        beside.printNext(["account", "list", query], { limit }, shown.next_cursor)
      }),
    )

const showCommand = () =>
  command("show", {
    summary: "Show one account with its members, keys and top-ups",
    examples: [["account show ana@mail.id", "by e-mail address or id"]],
  })
    .argument("<account>", "an e-mail address or an id")
    .option("--json", "print JSON, as the operator's API does")
    .action((name, { json }) => withDatabase((database) => show(database, name, json === true)))

async function show(database: Database, name: string, json: boolean): Promise<void> {
  const account = await accountNamed(database, name)
  const page = { after: undefined, limit: SHOWN + 1 }
  const allKeys = await apiKeyStore(database).list(account.id, page)
  const allTopUps = await topUpStore(database).list(account.id, page)
  const members = await memberStore(database).list(account.id)
  const { paused } = account
  const [keys, topUps] = [allKeys.slice(0, SHOWN), allTopUps.slice(0, SHOWN)]
  const lists = { keys: keys.map(keyJson), top_ups: topUps.map(topUpSummary), members: members.map(memberJson) }
  if (json) return beside.printJson({ ...accountJson(account), ...lists })
  beside.printFields({
    id: account.id,
    email: account.email,
    role: account.operatorRole === undefined ? "customer" : `operator, ${account.operatorRole}`,
    created: minute(account.createdAt),
    ...(account.deletedAt !== undefined && { deleted: minute(account.deletedAt) }),
    ...(account.frozen !== undefined && { frozen: `${minute(account.frozen.at)}: ${account.frozen.reason}` }),
    ...(paused !== undefined && {
      paused: `${minute(paused.since)} until ${paused.until === undefined ? "its owner resumes it" : minute(paused.until)}, by its owner's ceiling`,
    }),
    balance: rp(account.balanceMicro),
    held: `${rp(account.heldMicro)} for calls under way`,
    "with gateways": `${rp(account.leasedMicro)}, what is held included`,
    free: rp(minus(account.balanceMicro, account.leasedMicro)),
    ...(account.claimMicro > 0n && {
      owes: `${rp(account.claimMicro)} for payments that were taken back: settled before anything else, and until then calls get 402`,
    }),
  })
  if (members.length > 0) {
    console.log("")
    const rows = members.map((one) => [one.email, one.id, one.role, minute(one.since), one.invitedBy ?? "-"])
    beside.printTable(["member", "account", "role", "since", "invited by"], rows)
  }
  if (keys.length > 0) console.log("")
  printKeys(keys)
  if (allKeys.length > SHOWN) console.log(`\nall: loket key list ${account.id}`)
  if (topUps.length > 0) console.log("")
  printTopUps(topUps)
  if (allTopUps.length > SHOWN) console.log(`\nall: loket topup list --account ${account.id}`)
}

const freezeCommand = () =>
  command("freeze", {
    summary: "Refuse all calls by the account's keys from now on, and new keys",
    details:
      "Calls under way end, top-ups credit, and the dashboard can be read. A frozen account keeps its first reason.",
    examples: [['account freeze ana@mail.id --reason "chargeback of 12 May"', "its keys answer 403"]],
  })
    .argument("<account>", "an e-mail address or an id")
    .requiredOption("--reason <text>", "for whoever reads the log later", beside.reason)
    .option("--json", "print the account as JSON")
    .action((name, { reason, json }) =>
      changing(name, json, async (database, { id, frozen }) => {
        await accountStore(database).freeze(id, reason, commandAct())
        return frozen === undefined
          ? "frozen: its keys are refused"
          : `frozen already since ${minute(frozen.at)}, for the reason that stays: ${frozen.reason}`
      }),
    )

const unfreezeCommand = () =>
  command("unfreeze", {
    summary: "Let the account's keys call again",
    examples: [['account unfreeze ana@mail.id --reason "paid after all"', "its keys work again within a second"]],
  })
    .argument("<account>", "an e-mail address or an id")
    .requiredOption("--reason <text>", "for whoever reads the log later", beside.reason)
    .option("--json", "print the account as JSON")
    .action((name, { reason, json }) =>
      changing(name, json, async (database, { id }) => {
        await accountStore(database).unfreeze(id, { act: commandAct(), reason })
        return "not frozen: its keys work"
      }),
    )

const adjustCommand = () =>
  command("adjust", {
    summary: "Give balance, or take what is free of it",
    details:
      "Asks on a terminal before it changes anything; --yes is the answer. Without a terminal it asks nobody, and more than ADJUSTMENT_CONFIRM_RP needs --yes. Takes at most what calls under way do not hold. What a running gateway keeps ready for an account on the embedded database cannot be called back from here: take it on the dashboard, or wait two minutes without calls.",
    examples: [
      ['account adjust ana@mail.id 25000 --reason "goodwill"', "gives"],
      [
        'account adjust ana@mail.id -500.5 --reason "refund of req_1" --once req_1',
        "takes; a second time does nothing",
      ],
    ],
  })
    .argument("<account>", "an e-mail address or an id")
    .argument("<rupiah>", "how much; negative takes", beside.rupiah)
    .requiredOption(
      "--reason <text>",
      "for the customer, who reads it on the statement, and for the log",
      beside.reason,
    )
    .option("--once <key>", "the same adjustment is made once under a key", once)
    .option("--yes", "do not ask, and change more than ADJUSTMENT_CONFIRM_RP too")
    .option("--json", "print the account as JSON")
    .action((name, amountMicro, { reason, once: key, yes, json }) =>
      changing(name, json, async (database, { id, email, balanceMicro }, { ADJUSTMENT_CONFIRM_RP: largeRp }) => {
        const isLarge = abs(amountMicro) > BigInt(largeRp) * MICRO_PER_RUPIAH
        const what = `${amountMicro > 0n ? "give" : "take"} ${rp(abs(amountMicro))}: ${email} (${id}) has ${rp(balanceMicro)}`
        // Nobody is asked about what cannot be.
        if (balanceMicro + amountMicro >= 0n) await beside.confirmed(what, { yes: yes === true, large: isLarge })
        const adjustment = { accountId: id, amountMicro, reason, idempotencyKey: key ?? `cmd_${nanoid()}` }
        const balance = await adjustments(database).make(adjustment, commandAct())
        if (balance instanceof Failure) throw await notAdjusted(database, adjustment, balance)
        return `${rp(amountMicro)}; the balance is ${rp(balance)}`
      }),
    )

const resetPasswordCommand = () =>
  command("reset-password", {
    summary: "Print a link by which the account's owner sets a new password",
    details:
      "For who has forgotten it where no mail is sent. The link is good for 30 minutes and one use, ends all sessions, and does not replace a second factor. Give it to nobody but the owner.",
    examples: [['account reset-password ana@mail.id --reason "she called"', "prints the link"]],
  })
    .argument("<account>", "an e-mail address or an id")
    .requiredOption("--reason <text>", "for whoever reads the log later", beside.reason)
    .action((name, { reason }) =>
      withDatabase(async (database, { PUBLIC_URL, HOST, PORT }) => {
        const { id, email, deletedAt } = await accountNamed(database, name)
        if (deletedAt !== undefined) throw new CommandFailure(`${email} (${id}) is deleted`)
        const { token, hash } = createSessionToken()
        await accountMailStore(database).linkFor(id, hash, { act: commandAct(), reason })
        console.log(linkTo(PUBLIC_URL ?? `http://${HOST}:${PORT}`, "reset", token))
      }),
    )

const resetSecondFactorCommand = () =>
  command("reset-second-factor", {
    summary: "Take away an account's second factors, passkeys and recovery codes, and end its sessions",
    details:
      "For an owner who has lost both, and whom you know. The password alone signs in until a new one is set up.",
    examples: [
      ['account reset-second-factor ana@mail.id --reason "phone lost, seen her"', "asks for no code any more"],
    ],
  })
    .argument("<account>", "an e-mail address or an id")
    .requiredOption("--reason <text>", "for whoever reads the log later", beside.reason)
    .action((name, { reason }) => resetSecondFactorOf(name, reason))

export const resetSecondFactorOf = (name: string, reason: string): Promise<void> =>
  withDatabase(async (database) => {
    const { id, email } = await accountNamed(database, name)
    const removed = await secondFactorStore(database).remove(id, { act: commandAct(), reason })
    console.log(
      removed
        ? `${email} (${id}): its second factor is gone, and its sessions have ended`
        : `${email} (${id}) has no second factor`,
    )
  })

/** In rupiah, which the API's sentence is not, and with what can be done. */
async function notAdjusted(database: Database, { accountId, amountMicro }: Adjustment, failure: Failure) {
  const account = await accountNamed(database, accountId)
  const left = plus(account.balanceMicro, amountMicro)
  const why = failure instanceof NotAdjusted ? failure.why : undefined
  if (left < 0n && why === "over balance")
    return new CommandFailure(
      `the balance is ${rp(account.balanceMicro)}, and ${rp(left)} would be left: nothing was changed`,
    )
  const free = minus(account.balanceMicro, account.leasedMicro)
  if (free + amountMicro >= 0n || why !== "not free") return new CommandFailure(failure.message)
  return new CommandFailure(
    `only ${rp(free)} of ${rp(account.balanceMicro)} is free: calls under way and gateways that keep it ready have the rest. Freeze the account and try again when its calls have ended; on the embedded database also stop the gateway, or take it on the dashboard`,
  )
}

const abs = (amount: Micro): Micro => (amount < 0n ? minus(zero, amount) : amount)

function once(text: string): string {
  if (/^[A-Za-z0-9_.:-]{1,100}$/.test(text)) return text
  throw new InvalidArgumentError("It must be 1 to 100 letters, digits and _ . : -")
}

const adjustments = (database: Database) =>
  new Adjustments({ database, recall: besideGateways(database).recall, credited: () => {} })

/** Makes a change and shows the account as it is afterwards. */
function changing(
  name: string,
  json: true | undefined,
  change: (database: Database, account: AccountView, config: Config) => Promise<string>,
): Promise<void> {
  return withDatabase(async (database, config) => {
    const account = await accountNamed(database, name)
    const done = await change(database, account, config)
    if (json === true) return beside.printJson(accountJson(await accountNamed(database, account.id)))
    console.log(`${account.email} (${account.id}): ${done}`)
  })
}

const printAccounts = (accounts: readonly AccountView[]): void =>
  beside.printTable(
    ["id", "email", "balance", "keys", "created", "state"],
    accounts.map((account) => [
      account.id,
      account.email,
      rp(account.balanceMicro),
      String(account.keys),
      minute(account.createdAt),
      [
        ...(account.operatorRole === undefined ? [] : [`operator (${account.operatorRole})`]),
        ...(account.frozen === undefined ? [] : ["frozen"]),
        ...(account.paused === undefined ? [] : ["paused"]),
        ...(account.deletedAt === undefined ? [] : ["deleted"]),
      ].join(", "),
    ]),
    ["balance", "keys"],
  )
