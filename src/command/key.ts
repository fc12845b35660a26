/** `loket key`: API keys of customers. */
import { KEY_ID, keyPlace, STATUS } from "../http/dashboard/keys.ts"
import { keyJson, keyStatus } from "../http/dashboard/key-json.ts"
import { pageJson, readPage } from "../http/dashboard/page.ts"
import { apiKeyStore } from "../store/api-keys.ts"
import type { KeyRecord } from "../store/key-rows.ts"
import type { Database } from "../store/database.ts"
import * as beside from "./command.ts"
import { command, CommandFailure } from "./command.ts"

const { accountNamed, minute, rp, sure, withDatabase } = beside

export const keyCommand = () =>
  command("key", {
    summary: "API keys of customers: list, show, revoke",
    examples: [["key list ana@mail.id", "those that work first"]],
  })
    .addCommand(listCommand())
    .addCommand(showCommand())
    .addCommand(revokeCommand())

const listCommand = () =>
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
        const [status, id] = page.after ?? []
        const after = id === undefined ? undefined : { id, revoked: status === "revoked" }
        const account = await accountNamed(database, name)
        const rows = await apiKeyStore(database).list(account.id, { after, limit: limit + 1 })
        const shown = pageJson(rows, page, { item: keyJson, placeOf: keyPlace })
        if (json === true) return beside.printJson(shown)
        printKeys(rows.slice(0, limit))
        if (shown.next_cursor !== null) console.log(`\nmore: loket key list ${name} --cursor ${shown.next_cursor}`)
      }),
    )

const showCommand = () =>
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
    status: key.revokedAt === undefined ? keyStatus(key) : `revoked ${minute(key.revokedAt)}`,
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
    keys.map((key) => [key.id, key.name, hint(key), minute(key.createdAt), minute(key.lastUsedAt), keyStatus(key)]),
  )
}
