/** What held when it was first tried, and must go on to: races for money, isolation, webhooks, odd values, raw HTTP. */
import { PAYMENT_SECRET } from "../../crash/child.ts"
import type { Arena } from "../lib/arena.ts"
import { asking, rp } from "../lib/attacker.ts"
import { exchange, open } from "../lib/raw.ts"
import type { Finding, Row } from "../lib/row.ts"

const MODEL = "gpt-oss-20b"

async function races(arena: Arena): Promise<Finding[]> {
  const findings: Finding[] = []
  const rich = { counts: { input: 30, output: 12_000 } }
  const poor = await arena.attacker(10_000)
  const keys = await Promise.all(Array.from({ length: 9 }, () => poor.moreKey()))
  const mark = poor.plays(rich)
  const body = asking("chat", MODEL, mark, { max_tokens: 12_000 })
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, at) =>
      poor.call("chat", body, { key: [poor.key, ...keys.map(({ key }) => key)][at % 10]! }),
    ),
  )
  const left = await poor.balanceMicro()
  const told = answers.reduce((sum, { costRp }) => sum + Math.round(Number(costRp ?? 0) * 1e6), 0)
  findings.push({
    tried: "200 calls at once on ten keys and Rp 10,000",
    seen: `${answers.filter(({ ended }) => ended).length} answered, ${rp(told)} told, ${rp(left)} left`,
    held: left >= 0 && told + left === 10_000_000_000,
  })

  const budget = await arena.attacker(50_000)
  const { key } = await budget.moreKey({ spending_limit_micro: 50_000_000, spending_period: "total" })
  const spent = await Promise.all(
    Array.from({ length: 30 }, () =>
      budget.call("chat", asking("chat", MODEL, budget.plays(rich), { max_tokens: 12_000 }), { key }),
    ),
  )
  const cost = spent.reduce((sum, { costRp }) => sum + Math.round(Number(costRp ?? 0) * 1e6), 0)
  findings.push({
    tried: "30 calls at once on a budget of Rp 50",
    seen: rp(cost),
    held: cost > 0 && cost <= 50_000_000,
  })

  const counted = await arena.attacker(10_000, { requests_per_minute: 3 })
  const passed = await Promise.all(
    Array.from({ length: 20 }, () => counted.call("chat", asking("chat", MODEL, counted.plays({}), { max_tokens: 5 }))),
  )
  const passes = passed.filter(({ status }) => status === 200).length
  findings.push({ tried: "20 calls at once on 3 a minute", seen: `${passes} passed`, held: passes === 3 })
  return findings
}

async function webhooks(arena: Arena): Promise<Finding[]> {
  const attacker = await arena.attacker(10_000)
  const topUpId = await arena.gateway.openTopUp(attacker.customer, 20_000)
  const tell = (body: string, secret: string) =>
    fetch(`${arena.url}/webhooks/payments/simulated`, {
      method: "POST",
      headers: { "X-Signature": new Bun.CryptoHasher("sha256", secret).update(body).digest("hex") },
      body,
    })
  const paid = (amount: unknown) => JSON.stringify({ top_up_id: topUpId, status: "paid", amount_rp: amount })
  const odd = await Promise.all(
    [0, -20_000, 20_001, "20000", null, 1e308].map((amount) => tell(paid(amount), PAYMENT_SECRET)),
  )
  const forged = await tell(paid(20_000), "another secret")
  const before = await attacker.balanceMicro()
  const twenty = await Promise.all(Array.from({ length: 20 }, () => tell(paid(20_000), PAYMENT_SECRET)))
  const after = await attacker.balanceMicro()
  return [
    {
      tried: "a forged payment, and six wrong amounts",
      seen: `${forged.status}; ${odd.map(({ status }) => status).join(" ")}; ${rp(before)}`,
      held: forged.status === 401 && odd.every(({ status }) => status === 400) && before === 10_000_000_000,
    },
    {
      tried: "one payment told 20 times at once",
      seen: `${twenty.filter(({ ok }) => ok).length} × 200, ${rp(after - before)} credited`,
      held: after - before === 20_000_000_000,
    },
  ]
}

interface Operation {
  readonly method: string
  readonly path: string
}

/** What an operation takes of its owner, by its path's last word; the others take an empty object. */
const taken: Readonly<Record<string, string>> = { breaker: '{"ceiling_micro":null}', tokens: '{"name":"a token"}' }

/** Every operation that the gateway names, as a stranger, with a key, and with another's session. */
async function isolation(arena: Arena): Promise<Finding[]> {
  const owner = await arena.attacker(20_000)
  const thief = await arena.attacker(10_000)
  const { requestId } = await owner.call("chat", asking("chat", MODEL, owner.plays({}), { max_tokens: 5 }))
  await owner.record(requestId)
  const topUpId = await arena.gateway.openTopUp(owner.customer, 10_000)
  const document = (await (await fetch(`${arena.url}/openapi.json`)).json()) as { paths: Record<string, object> }
  const operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.keys(item)
      .filter((method) => /^(get|post|put|patch|delete)$/.test(method))
      .map((method): Operation => ({ method: method.toUpperCase(), path })),
  )
  const ids: Readonly<Record<string, readonly string[]>> = {
    keys: [owner.customer.keyId],
    "top-ups": [topUpId],
    usage: [requestId],
    operator: [owner.accountId, owner.customer.keyId, MODEL, topUpId],
  }
  const ask = async ({ method, path }: Operation, id: string, token: string | undefined): Promise<number> => {
    // One that the operation would take of its owner.
    const body = method === "GET" ? {} : { body: taken[path.split("/").at(-1) ?? ""] ?? "{}" }
    const response = await fetch(arena.url + path.replace(/\{[^}]+\}/g, id), {
      method,
      headers: { "Content-Type": "application/json", ...(token !== undefined && { Authorization: `Bearer ${token}` }) },
      ...body,
    })
    await response.body?.cancel()
    return response.status
  }
  let asked = 0
  const leaks: string[] = []
  for (const operation of operations) {
    const room = operation.path.split("/")[1] ?? ""
    if (room !== "operator" && !operation.path.includes("{")) continue
    for (const id of ids[room] ?? []) {
      for (const [who, token] of [
        ["another tenant", thief.customer.token],
        ["an API key", owner.key],
        ["nobody", undefined],
      ] as const) {
        asked++
        const status = await ask(operation, id, token)
        const fits = who === "another tenant" ? [403, 404] : [401]
        if (!fits.includes(status)) leaks.push(`${operation.method} ${operation.path} as ${who}: ${status}`)
      }
    }
  }
  const list = await thief.dashboard(`/usage?key_id=${owner.customer.keyId}`)
  const { data } = (await list.json()) as { data: unknown[] }
  return [
    {
      tried: `${asked} calls to ${operations.length} operations with another's ids`,
      seen: leaks.length === 0 ? "404, 403, 401" : leaks.slice(0, 3).join("; "),
      held: leaks.length === 0 && asked > 30,
    },
    { tried: "usage by another tenant's key_id", seen: `${list.status}, ${data.length} rows`, held: data.length === 0 },
  ]
}

async function oddValues(arena: Arena): Promise<Finding[]> {
  const attacker = await arena.attacker(10_000)
  const wrong: string[] = []
  const raw = (field: string, value: string) =>
    `{"model":"${MODEL}","${field}":${value},"messages":[{"role":"user","content":"${attacker.plays({})}"}]}`
  const values = ["-1", "0", "1.5", "1e308", "1e400", '"5"', "true", "[]", "9007199254740993"]
  let asked = 0
  for (const field of ["max_tokens", "max_completion_tokens", "n"]) {
    for (const value of values) {
      asked++
      const { status } = await attacker.call("chat", raw(field, value))
      if (status !== 400) wrong.push(`${field} ${value}: ${status}`)
    }
  }
  const nested = `{"model":"${MODEL}","messages":${"[".repeat(100_000)}${"]".repeat(100_000)}}`
  const deep = await attacker.call("chat", nested)
  const polluted = await attacker.call(
    "chat",
    `{"model":"${MODEL}","__proto__":{"max_tokens":1e9,"isOperator":true},"constructor":{"prototype":{"model":"x"}},"max_tokens":5,"messages":[{"role":"user","content":"${attacker.plays({})}"}]}`,
  )
  return [
    {
      tried: `${asked} odd limits`,
      seen: wrong.length === 0 ? "400 each" : wrong.join(", "),
      held: wrong.length === 0,
    },
    { tried: "100,000 brackets deep", seen: deep.code ?? String(deep.status), held: deep.status === 400 },
    {
      tried: "__proto__ and constructor",
      seen: polluted.code ?? String(polluted.status),
      held: polluted.status === 200 || polluted.status === 400,
    },
  ]
}

const MESSAGES = "/v1/messages"
const smuggled: readonly (readonly [string, string])[] = [
  [
    "length and chunks",
    `POST ${MESSAGES} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  ["two lengths", `POST ${MESSAGES} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde`],
  ["a list of lengths", `POST ${MESSAGES} HTTP/1.1\r\nHost: a\r\nContent-Length: 4, 5\r\n\r\nabcde`],
  ["a signed length", `POST ${MESSAGES} HTTP/1.1\r\nHost: a\r\nContent-Length: +4\r\n\r\nabcd`],
  ["a hexadecimal length", `POST ${MESSAGES} HTTP/1.1\r\nHost: a\r\nContent-Length: 0x4\r\n\r\nabcd`],
  ["a negative length", `POST ${MESSAGES} HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\nabcd`],
  ["a huge length", `POST ${MESSAGES} HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\nabcd`],
  ["an odd encoding", `POST ${MESSAGES} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`],
  ["chunks twice", `POST ${MESSAGES} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n`],
  ["a bad chunk", `POST ${MESSAGES} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n`],
  ["a folded header", `GET /models HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\n\r\n`],
  ["a bare line feed", `GET /models HTTP/1.1\nHost: a\n\n`],
  ["a NUL in a header", `GET /models HTTP/1.1\r\nHost: a\r\nX-A: b\0c\r\n\r\n`],
  ["a space before the colon", `GET /models HTTP/1.1\r\nHost : a\r\n\r\n`],
]

async function rawHttp(arena: Arena): Promise<Finding[]> {
  const passed: string[] = []
  for (const [tried, bytes] of smuggled) {
    const text = await exchange(arena.url, bytes, 200)
    // What may be told of the head alone, and then that its body is none.
    const statuses = [...text.matchAll(/HTTP\/1.1 (\d+)/g)].map(([, status]) => status ?? "")
    const [first = "400", ...more] = statuses
    if (!/^(4\d\d|505)$/.test(first) || more.some((each) => each !== "400"))
      passed.push(`${tried}: ${statuses.join(", ")}`)
  }
  const sockets = await Promise.all(Array.from({ length: 300 }, () => open(arena.url)))
  for (const socket of sockets) {
    socket.on("error", () => {})
    socket.write("GET /models HTTP/1.1\r\nHost: a\r\nX-Slow: ")
  }
  const answered = await fetch(`${arena.url}/healthz`, { signal: AbortSignal.timeout(3_000) }).then(
    ({ ok }) => ok,
    () => false,
  )
  for (const socket of sockets) socket.destroy()
  return [
    {
      tried: `${smuggled.length} requests that can be read in two ways`,
      seen: passed.length === 0 ? "refused or closed" : passed.join("; "),
      held: passed.length === 0,
    },
    {
      tried: "300 heads that never end",
      seen: answered ? "others are served" : "/healthz does not answer",
      held: answered,
    },
  ]
}

async function fetches(arena: Arena): Promise<Finding[]> {
  const attacker = await arena.attacker(50_000)
  const strays = arena.backend.strays.length
  const address = `${arena.backend.url}/secret.png`
  const image = [
    { type: "image_url", image_url: { url: address } },
    { type: "text", text: attacker.plays({}) },
  ]
  const chat = await attacker.call("chat", {
    model: "nova-pro",
    max_tokens: 5,
    messages: [{ role: "user", content: image }],
  })
  const source = { type: "url", url: address }
  const blocks = [
    { type: "image", source },
    { type: "text", text: attacker.plays({}) },
  ]
  const messages = await attacker.call("messages", {
    model: "claude-opus-5-5",
    max_tokens: 5,
    messages: [{ role: "user", content: blocks }],
  })
  const redirected = await attacker.call(
    "chat",
    asking(
      "chat",
      MODEL,
      attacker.plays({ respond: (_, response) => response.writeHead(307, { Location: address }).end() }),
      { max_tokens: 5 },
    ),
  )
  const fetched = arena.backend.strays.length - strays
  return [
    {
      tried: "addresses of images, and a backend that redirects",
      seen: `${chat.code ?? chat.status}, ${messages.code ?? messages.status}, ${redirected.code ?? redirected.status}; ${fetched} fetched`,
      held: fetched === 0 && redirected.status === 502,
    },
  ]
}

export const heldRows: readonly Row[] = [
  { id: "K1", wanted: "no race for money is won", play: races },
  { id: "K2", wanted: "one credit for one payment", play: webhooks },
  { id: "K3", wanted: "nobody reaches another's", play: isolation },
  { id: "K4", wanted: "400", play: oddValues },
  { id: "K5", wanted: "4xx", play: rawHttp },
  { id: "K6", wanted: "nothing that a client or a backend names is fetched", play: fetches },
]
