/** What accounts are safe by: A1 second factors, A2 links for a password, A3 money back, A4 webhooks, A5 presses. */
import { TOTP } from "otpauth"
import { ADDRESS_HEADER, type Arena } from "../lib/arena.ts"
import { asking, type Attacker, rp } from "../lib/attacker.ts"
import { type Finding, NotPlayed, type Row } from "../lib/row.ts"

const PASSWORD = "correct horse battery"
const MODEL = "gpt-oss-20b"
const AT_ONCE = 8
const JSON_BODY = { "Content-Type": "application/json" }

interface Owner {
  readonly email: string
  readonly token: string
}

const post = (arena: Arena, path: string, body: object, headers: Readonly<Record<string, string>> = {}) =>
  fetch(arena.url + path, { method: "POST", headers: { ...JSON_BODY, ...headers }, body: JSON.stringify(body) })
const bearer = (token: string) => ({ Authorization: `Bearer ${token}` })
// Of any shape: what it is, the row says.
// oxlint-disable-next-line typescript/no-explicit-any
const json = async (response: Response): Promise<any> => await response.json()

async function owner(arena: Arena): Promise<Owner> {
  const email = `a${crypto.randomUUID()}@example.com`
  const { session_token: token } = await json(await post(arena, "/auth/sign-up", { email, password: PASSWORD }))
  return { email, token }
}

const statusOf = async (response: Promise<Response>): Promise<number> => {
  const { status, body } = await response
  await body?.cancel()
  return status
}
const opens = async (arena: Arena, token: string): Promise<boolean> =>
  (await statusOf(fetch(`${arena.url}/account`, { headers: bearer(token) }))) === 200

/** How many of so many at once were let in. */
async function letIn(attempt: () => Promise<Response>): Promise<number> {
  const statuses = await Promise.all(Array.from({ length: AT_ONCE }, () => statusOf(attempt())))
  return statuses.filter((status) => status < 300).length
}

async function secondFactor(arena: Arena): Promise<Finding[]> {
  const { email, token } = await owner(arena)
  const { secret } = await json(await post(arena, "/account/second-factor", { password: PASSWORD }, bearer(token)))
  const app = new TOTP({ secret })
  const first = app.generate()
  const confirmed = await post(arena, "/account/second-factor/confirm", { code: first }, bearer(token))
  const { recovery_codes: codes } = (await json(confirmed)) as { recovery_codes: string[] }
  const half = async (): Promise<string> =>
    (await json(await post(arena, "/auth/sign-in", { email, password: PASSWORD }))).second_factor.token
  const show = async (step: string, code: string, from = "198.51.100.7") =>
    await post(arena, "/auth/sign-in/second-factor", { token: step, code }, { [ADDRESS_HEADER]: from })
  const step = await half()
  const replayed = await letIn(() => show(step, first))
  const next = app.generate({ timestamp: Date.now() + 30_000 })
  const halves = await Promise.all(Array.from({ length: AT_ONCE }, half))
  const once = await letIn(() => show(halves.pop() ?? "", next))
  const recoveries = await Promise.all(Array.from({ length: AT_ONCE }, half))
  const recovered = await letIn(() => show(recoveries.pop() ?? "", codes[0] ?? ""))
  const findings: Finding[] = [
    {
      tried: "half of a sign-in in the place of a session",
      seen: (await opens(arena, step)) ? "let in" : "401",
      held: !(await opens(arena, step)),
    },
    {
      tried: `the code that set the app up, ${AT_ONCE} times again`,
      seen: `${replayed} let in`,
      held: replayed === 0,
    },
    { tried: `one code ${AT_ONCE} times at once`, seen: `${once} let in`, held: once === 1 },
    { tried: `one recovery code ${AT_ONCE} times at once`, seen: `${recovered} let in`, held: recovered <= 1 },
  ]
  const wrong = await half()
  const guesses = await Promise.all(
    Array.from({ length: 60 }, (_, n) => show(wrong, String(n).padStart(6, "0"), `203.0.113.${n}`)),
  )
  const judged = guesses.filter(({ headers }) => headers.get("retry-after") === null).length
  const late = await statusOf(show(wrong, codes[1] ?? "", "203.0.113.99"))
  const home = await statusOf(show(await half(), codes[2] ?? ""))
  findings.push({
    tried: "60 codes at once, from as many networks",
    seen: `${judged} judged, and then a right one: ${late}; the owner's where she has signed in: ${home}`,
    held: judged <= 10 && late === 401 && home === 200,
  })
  return findings
}

async function links(arena: Arena): Promise<Finding[]> {
  if (arena.place.url === undefined)
    throw new NotPlayed("the command that makes a link has no books beside the gateway")
  const { email, token } = await owner(arena)
  const made = async () => {
    const { said } = await arena.command("account", "reset-password", email, "--reason", "red team")
    return /reset-password#([\w-]{43})/.exec(said)?.[1] ?? ""
  }
  const [link, other] = [await made(), await made()]
  const reset = (which: string, password: string) =>
    post(arena, "/auth/password/reset", { token: which, new: password })
  const used = await letIn(() => reset(link, `a new password ${crypto.randomUUID()}`))
  const others = await statusOf(reset(other, "the password of a thief"))
  const old = await statusOf(post(arena, "/auth/sign-in", { email, password: PASSWORD }))
  const isOpen = await opens(arena, token)
  return [
    { tried: `one link ${AT_ONCE} times at once`, seen: `${used} set a password`, held: used === 1 },
    { tried: "another link from before", seen: `${others}`, held: others === 400 },
    { tried: "the old password", seen: `${old}`, held: old === 401 },
    { tried: "a session from before", seen: isOpen ? "let in" : "401", held: !isOpen },
  ]
}

interface Refund {
  readonly kind: string
  readonly status: string
  readonly amount_micro: number
  readonly balance_micro: number
}

const PAID_RP = 50_000
const REST_RP = 10_000

/** Refunds, calls and the bank, all at the same money. */
async function moneyBack(arena: Arena): Promise<Finding[]> {
  const operator = await arena.operator()
  if (operator === undefined) throw new NotPlayed("no operator can be made beside a gateway on an embedded database")
  const attacker = await arena.attacker(REST_RP)
  const topUpId = await arena.gateway.openTopUp(attacker.customer, PAID_RP)
  await arena.gateway.pay(topUpId, PAID_RP)
  const refunds = `/operator/accounts/${attacker.accountId}/refunds`
  const refund = (rupiah: number, key: string) => {
    const asked = { top_up_id: topUpId, amount_micro: rupiah * 1e6, payout: "by_hand", reason: "red team" }
    return statusOf(post(arena, refunds, { ...asked, idempotency_key: key }, bearer(operator)))
  }
  const calls = Array.from({ length: 12 }, () => call(attacker, 2_000))
  const bank = () => arena.gateway.takeBack(topUpId, PAID_RP, "redteam-1")
  await Promise.all([
    ...calls,
    ...Array.from({ length: AT_ONCE }, (_, n) => refund(30_000, `big-${n}`)),
    ...Array.from({ length: AT_ONCE }, () => refund(5_000, "small")),
  ])
  const after = async () => {
    const account = await json(await attacker.dashboard("/account"))
    const { data } = (await json(await fetch(arena.url + refunds, { headers: bearer(operator) }))) as { data: Refund[] }
    const back = data.reduce((sum, { amount_micro: amount }) => sum + amount, 0)
    return { balance: account.balance_micro as number, claim: account.claim_micro as number, back, count: data.length }
  }
  const spent = async () =>
    (await Promise.all(calls)).reduce((sum, { costRp }) => sum + Math.round(Number(costRp ?? 0) * 1e6), 0)
  const first = await after()
  const left = (PAID_RP + REST_RP) * 1e6 - first.back - (await spent())
  await Promise.all(Array.from({ length: AT_ONCE }, bank))
  const second = await after()
  const poor = await attacker.call("chat", asking("chat", MODEL, attacker.plays({}), { max_tokens: 5 }))
  return [
    {
      tried: `${2 * AT_ONCE} refunds of one top-up and 12 calls at once`,
      seen: `${first.count} refunds of ${rp(first.back)}, balance ${rp(first.balance)}, expected ${rp(left)}`,
      held: first.count <= 2 && first.back <= PAID_RP * 1e6 && first.balance === left && left >= 0,
    },
    {
      tried: `then the bank takes all of it back, told ${AT_ONCE} times at once`,
      seen: `${rp(second.back)} back in all, balance ${rp(second.balance)}, claim ${rp(second.claim)}`,
      held: second.back <= PAID_RP * 1e6 && second.balance >= 0 && (second.claim === 0 || second.balance === 0),
    },
    {
      tried: "a call after it",
      seen: `${poor.code ?? poor.status}`,
      held: second.claim === 0 || poor.status === 402,
    },
  ]
}

const call = (attacker: Attacker, output: number) =>
  attacker.call(
    "chat",
    asking("chat", MODEL, attacker.plays({ counts: { input: 30, output } }), { max_tokens: output }),
  )

/** As a customer may write them; none is of the public Internet. */
const INSIDE = [
  "http://example.com/",
  "https://127.0.0.1/",
  "https://2130706433/",
  "https://0x7f.1/",
  "https://0177.0.0.1/",
  "https://[::1]/",
  "https://[::ffff:127.0.0.1]/",
  "https://[64:ff9b::7f00:1]/",
  "https://169.254.169.254/latest/meta-data/",
  "https://localhost/",
  "https://metadata/",
  "https://example.com:22/",
  "https://example.com:5432/",
  "https://user:secret@example.com/",
  "https://example.com/#part",
  "https://example.com/\r\nX-Injected: 1",
  "https://exa\u0000mple.com/",
  "gopher://example.com/",
] as const

async function webhooks(arena: Arena): Promise<Finding[]> {
  const { token } = await owner(arena)
  const taken: string[] = []
  for (const url of INSIDE) {
    const asked = fetch(`${arena.url}/account/webhook`, {
      method: "PUT",
      headers: { ...JSON_BODY, ...bearer(token) },
      body: JSON.stringify({ url }),
    })
    if ((await statusOf(asked)) !== 400) taken.push(url)
  }
  return [
    {
      tried: `${INSIDE.length} addresses that lead inside`,
      seen: taken.length === 0 ? "400" : `taken: ${taken.join(" ")}`,
      held: taken.length === 0,
    },
  ]
}

async function presses(arena: Arena): Promise<Finding[]> {
  const [{ token }, stranger] = [await owner(arena), await owner(arena)]
  const headers = { "Idempotency-Key": crypto.randomUUID() }
  const press = (who: string, name: string) => post(arena, "/keys", { name }, { ...bearer(who), ...headers })
  const answers = await Promise.all(Array.from({ length: 20 }, () => press(token, "one")))
  const ids = new Set(await Promise.all(answers.map(async (answer) => (await json(answer)).id)))
  const another = await statusOf(press(token, "another"))
  const theirs = await json(await press(stranger.token, "one"))
  const { data } = await json(await fetch(`${arena.url}/keys`, { headers: bearer(token) }))
  return [
    {
      tried: "one press sent 20 times at once",
      seen: `${data.length} keys, told under ${ids.size} ids`,
      held: data.length === 1 && ids.size === 1,
    },
    { tried: "another body under its key", seen: `${another}`, held: another === 409 },
    {
      tried: "a stranger's press under the same key",
      seen: ids.has(theirs.id) ? "the first one's answer" : "a key of his own",
      held: typeof theirs.id === "string" && !ids.has(theirs.id),
    },
  ]
}

export const accountsRows: readonly Row[] = [
  {
    id: "A1",
    wanted: "each code once, ten wrong ones an hour, and no half of a sign-in is one",
    play: secondFactor,
  },
  { id: "A2", wanted: "one use, and nothing from before it stays", play: links },
  { id: "A3", wanted: "never more back than was paid, and nothing spent twice", play: moneyBack },
  { id: "A4", wanted: "400 before anything is asked", play: webhooks },
  { id: "A5", wanted: "one change for one press, each account's own", play: presses },
]
