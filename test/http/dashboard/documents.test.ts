/** Receipts and statements as PDF: their numbers, that they stay as they were issued, and that what they show adds up. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test"
import { inflateSync } from "node:zlib"
import { PDFDocument, PDFRawStream } from "@cantoo/pdf-lib"
import { Elysia } from "elysia"
import { type DocumentContent, statementOf, vatOf, wholeRupiah } from "../../../src/http/dashboard/document-content.ts"
import { documentsController, type DocumentsDeps } from "../../../src/http/dashboard/documents.ts"
import { MAX_ROWS, type StatementEntry } from "../../../src/http/dashboard/statement.ts"
import { edge, edgeHandler, newRequestId } from "../../../src/http/edge.ts"
import { createLog } from "../../../src/log.ts"
import { measurePdf } from "../../../src/pdf/measure.ts"
import { documentStore } from "../../../src/store/documents.ts"
import { ownerSession } from "./session.ts"
import { openWorld, type World } from "./world.ts"

const RP = 1_000_000
/** Changed by a test. */
const seller = {
  party: { name: "PT Loket Satu", address: "Jalan Merdeka 1, Jakarta", npwp: "01.234.567.8-901.000" },
  vat: { basisPoints: 1_100, isIncluded: true },
}
let world: World
let unsaid: World
beforeAll(async () => {
  world = await openWorld({ seller })
  unsaid = await openWorld()
})
afterAll(async () => {
  await world[Symbol.asyncDispose]()
  await unsaid[Symbol.asyncDispose]()
})

interface Pdf {
  readonly status: number
  readonly name: string
  readonly bytes: Uint8Array
  /** Every text that is drawn, in order. */
  readonly texts: readonly string[]
  readonly pages: number
}

async function pdf(path: string, token: string, of: World = world): Promise<Pdf> {
  const response = await fetch(new URL(path, of.origin), { headers: { authorization: `Bearer ${token}` } })
  const bytes = new Uint8Array(await response.arrayBuffer())
  const name = /filename="(.*)\.pdf"/.exec(response.headers.get("content-disposition") ?? "")?.[1] ?? ""
  if (response.status !== 200) return { status: response.status, name, bytes, texts: [], pages: 0 }
  expect(response.headers.get("content-type")).toBe("application/pdf")
  return { status: 200, name, bytes, texts: await textsOf(bytes), pages: (await measurePdf(bytes))?.pages ?? 0 }
}

/** What `Tj` shows, of hexadecimal strings in WinAnsi. */
async function textsOf(bytes: Uint8Array): Promise<readonly string[]> {
  const { context } = await PDFDocument.load(bytes, { updateMetadata: false })
  const content = context.enumerateIndirectObjects().flatMap(([, object]) => {
    if (!(object instanceof PDFRawStream)) return []
    const drawn = inflateSync(object.contents).toString("latin1")
    return [...drawn.matchAll(/<([0-9A-Fa-f]*)> Tj/g)].map(([, hex = ""]) =>
      new TextDecoder("windows-1252").decode(Buffer.from(hex, "hex")),
    )
  })
  return content
}

async function paid(person: { readonly id: string }, amountRp = 50_000, fee = 0, of: World = world): Promise<string> {
  const id = `top_${crypto.randomUUID()}`
  await of.sql`
    insert into top_ups (id, account_id, provider, status, balance_purchased_micro, service_fee_micro, payment_fee_micro,
      network_fee_micro, reference, qr_payload, expires_at, paid_at)
    values (${id}, ${person.id}, 'midtrans', 'paid', ${amountRp * RP}, ${fee * RP}, 0, 0, 'ref-1', '', now(), now())`
  return id
}
const kept = (subject: string) => world.sql<{ number: string; content: Record<string, unknown> }[]>`
  select number, content from documents where subject = ${subject}`

async function moved(accountId: string, at: string, amount: number, reason: string) {
  const [debit, credit] = amount > 0 ? ["house:x", accountId] : [accountId, "house:x"]
  await world.sql`
    insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason, created_at)
    values (${crypto.randomUUID()}, ${debit}, ${credit}, ${Math.abs(amount)}, ${reason}, ${at})`
  await world.sql`update balances set posted_micro = posted_micro + ${amount} where account_id = ${accountId}`
}
async function called(accountId: string, at: string, charge: number) {
  await world.sql`
    insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
      output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts,
      flagged, opened_at, duration_ms)
    values (${newRequestId(Date.parse(at))}, 0, ${accountId}, 'key_a', 1, 'm', 'chat', true, 'ok', 1, 1, 0, 0,
      ${charge}, 0, 1, 1, 1, false, ${at}, 1)`
  await moved(accountId, at, -charge, "charge")
}
/** The month before last in Jakarta, which is over for more than a day. */
const closed = Temporal.Now.plainDateISO("Asia/Jakarta").toPlainYearMonth().subtract({ months: 2 }).toString()
const longKnown = (id: string) => world.sql`update accounts set created_at = '2020-01-01' where id = ${id}`

describe("the receipt of a top-up", () => {
  test("names seller, buyer, lines and VAT, and stays as it was issued whatever changes", async () => {
    const person = await world.signUp()
    const buyer = { buyer_name: "CV Ő株 Maju\u200b", buyer_address: "Jalan 2\nBandung", buyer_npwp: "1234567890123456" }
    await world.call("PATCH", "/account", { token: person.token, body: buyer })
    const id = await paid(person, 50_000, 1_500)
    const first = await pdf(`/top-ups/${id}/receipt.pdf`, person.token)
    expect([first.status, first.pages]).toEqual([200, 1])
    expect(first.name).toMatch(/^KW-\d{4}-\d{6}$/)
    for (const text of [
      "Kuitansi",
      `Nomor ${first.name}`,
      "PT Loket Satu",
      "NPWP 01.234.567.8-901.000",
      "CV O? Maju",
      "Bandung",
      "NPWP 1234567890123456",
      id,
      "Rp 50.000",
      "Rp 1.500",
      "Rp 51.500",
      "Rp 46.396",
      "PPN 11%, sudah termasuk",
      "Rp 5.104",
    ])
      expect(first.texts).toContain(text)
    const [row] = await kept(id)
    expect(row?.number).toBe(first.name)
    expect(row?.content).toMatchObject({
      buyer: { name: buyer.buyer_name },
      total_rp: 51_500,
      vat: { base_rp: 46_396, vat_rp: 5_104 },
    })

    const before = { ...seller.party }
    seller.party = { name: "PT Lain", address: "-", npwp: "123456789012345" }
    seller.vat.isIncluded = false
    try {
      await world.call("PATCH", "/account", { token: person.token, body: { buyer_name: "Orang Lain", language: "en" } })
      const again = await pdf(`/top-ups/${id}/receipt.pdf`, person.token)
      expect(Buffer.from(again.bytes).equals(first.bytes)).toBe(true)
      const next = await pdf(`/top-ups/${await paid(person)}/receipt.pdf`, person.token)
      for (const text of ["Receipt", "PT Lain", "Orang Lain", "VAT 11%, not included", "Rp 5,500"])
        expect(next.texts).toContain(text)
    } finally {
      seller.party = before
      seller.vat.isIncluded = true
    }
  })

  test("is nobody else's, and there is none before the payment", async () => {
    const [person, other] = [await world.signUp(), await world.signUp()]
    const id = await paid(person)
    expect((await pdf(`/top-ups/${id}/receipt.pdf`, other.token)).status).toBe(404)
    expect(await kept(id)).toHaveLength(0)
    expect((await pdf(`/top-ups/${id}/receipt.pdf`, person.token)).status).toBe(200)
    expect((await pdf(`/top-ups/${id}/receipt.pdf`, other.token)).status).toBe(404)
    const { json } = await world.call("POST", "/top-ups", { token: person.token, body: { amount_rp: 10_000 } })
    expect((await pdf(`/top-ups/${json.id}/receipt.pdf`, person.token)).status).toBe(404)
    expect((await pdf("/top-ups/%00/receipt.pdf", person.token)).status).toBe(404)
  })

  test("is a draft without a number while nobody has said who sells", async () => {
    const person = await unsaid.signUp()
    const id = await paid(person, 50_000, 0, unsaid)
    const { name, texts } = await pdf(`/top-ups/${id}/receipt.pdf`, person.token, unsaid)
    expect(name).toBe("loket-draft-receipt")
    expect(texts).toContain("DRAF, belum bernomor")
    expect(await unsaid.sql`select from documents`).toHaveLength(0)
  })

  test("of a refund is there once it was paid out, in rupiah that add up", async () => {
    const person = await world.signUp()
    const topUp = await paid(person)
    const refund = async (status: string) => {
      const id = `ref_${crypto.randomUUID()}`
      await world.sql`
        insert into refunds (id, account_id, top_up_id, kind, idempotency_key, balance_micro, service_fee_micro, payment_fee_micro,
          claimed_micro, reason, status, paid_out_at)
        values (${id}, ${person.id}, ${topUp}, 'refund', ${id}, 1500400000, 300300000, 0, 0, 'salah bayar', ${status},
          ${status === "paid_out" ? new Date() : null})`
      return id
    }
    const booked = await refund("booked")
    expect((await pdf(`/refunds/${booked}/receipt.pdf`, person.token)).status).toBe(404)
    const id = await refund("paid_out")
    const { name, texts } = await pdf(`/refunds/${id}/receipt.pdf`, person.token)
    expect(name).toMatch(/^PD-\d{4}-\d{6}$/)
    // 1,500.4 and 300.3 are 1,800.7.
    for (const text of ["salah bayar", "Rp 1.500", "Rp 301", "Rp 1.801"]) expect(texts).toContain(text)
    expect((await pdf(`/refunds/${id}/receipt.pdf`, (await world.signUp()).token)).status).toBe(404)
  })
})

test("the receipts of a top-up's refunds come to what was paid, and to its VAT, in whatever order they are issued", async () => {
  const person = await world.signUp()
  const topUp = await paid(person, 10_000)
  const parts = [3_333_500_000, 3_333_500_000, 3_332_600_000, 400_000]
  const ids = parts.map(() => `ref_${crypto.randomUUID()}`)
  for (const [index, id] of ids.entries())
    await world.sql`
      insert into refunds (id, account_id, top_up_id, kind, idempotency_key, balance_micro, service_fee_micro, payment_fee_micro,
        claimed_micro, reason, status, paid_out_at)
      values (${id}, ${person.id}, ${topUp}, 'refund', ${id}, ${parts[index]!}, 0, 0, 0, 'a part', 'paid_out',
        ${new Date(Date.now() - 60_000 + index)})`
  for (const path of [...ids.toReversed().map((id) => `/refunds/${id}`), `/top-ups/${topUp}`])
    expect((await pdf(`${path}/receipt.pdf`, person.token)).status).toBe(200)
  type Content = { total_rp: number; vat: { vat_rp: number; base_rp: number } }
  const contents = await Promise.all(
    [topUp, ...ids].map(async (id) => (await kept(id))[0]?.content as unknown as Content),
  )
  const [whole, ...back] = contents.map(({ total_rp: total, vat }) => [total, vat.vat_rp, vat.base_rp])
  expect(back.map(([total]) => total)).toEqual([3_334, 3_333, 3_333, 0])
  expect([0, 1, 2].map((place) => back.reduce((sum, part) => sum + part[place]!, 0))).toEqual(whole!)
})

describe("a statement", () => {
  test("of a closed month adds up to the rupiah of the database, and is numbered once", async () => {
    const person = await world.signUp()
    await longKnown(person.id)
    await moved(person.id, `${closed}-02T03:00:00Z`, 20_000 * RP, "top_up")
    for (let day = 3; day < 20; day++)
      await called(person.id, `${closed}-${String(day).padStart(2, "0")}T03:00:00Z`, 333_333)
    await moved(person.id, `${closed}-21T03:00:00Z`, -1_250_000, "adjustment")
    const path = `/account/statement.pdf?month=${closed}`
    const first = await pdf(path, person.token)
    expect(first.name).toMatch(/^RK-\d{4}-\d{6}$/)
    const [row] = await kept(closed)
    const content = row?.content as {
      opening_rp: number
      closing_rp: number
      in_rp: number
      out_rp: number
      entries: { amount_rp: number; balance_rp: number }[]
    }
    const [sums] = await world.sql<{ posted: string }[]>`
      select round(posted_micro / 1000000.0)::text as posted from balances where account_id = ${person.id}`
    expect(content.closing_rp).toBe(Number(sums?.posted))
    expect(content.opening_rp + content.in_rp - content.out_rp).toBe(content.closing_rp)
    let balance = content.opening_rp
    for (const entry of content.entries) {
      balance += entry.amount_rp
      expect(entry.balance_rp).toBe(balance)
    }
    expect(content.entries).toHaveLength(19)
    expect(first.texts).toContain(`Rp ${new Intl.NumberFormat("id").format(content.closing_rp)}`)

    await moved(person.id, `${closed}-22T03:00:00Z`, 5 * RP, "adjustment")
    const again = await pdf(path, person.token)
    expect(Buffer.from(again.bytes).equals(first.bytes)).toBe(true)
    // An account has its own.
    const other = await world.signUp()
    await longKnown(other.id)
    expect((await pdf(path, other.token)).name).not.toBe(first.name)
  })

  test("begins with what the one before it ended with, also where the account has another time zone by then", async () => {
    const person = await world.signUp()
    await longKnown(person.id)
    const before = Temporal.PlainYearMonth.from(closed).subtract({ months: 1 }).toString()
    await moved(person.id, `${before}-15T03:00:00Z`, 20_000 * RP, "top_up")
    // Of this month in Jakarta, and of the one before in UTC.
    await called(person.id, new Date(Date.parse(`${closed}-01T00:00:00+07:00`) + 3_600_000).toISOString(), 8 * RP)
    const ofMonth = async (month: string) => {
      const { name } = await pdf(`/account/statement.pdf?month=${month}`, person.token)
      const [row] = await world.sql<{ content: { opening_rp: number; closing_rp: number; time_zone: string } }[]>`
        select content from documents where number = ${name}`
      return row?.content
    }
    const first = await ofMonth(before)
    const zone = await fetch(new URL("/account", world.origin), {
      method: "PATCH",
      headers: { authorization: `Bearer ${person.token}`, "content-type": "application/json" },
      body: JSON.stringify({ time_zone: "UTC" }),
    })
    expect(zone.status).toBe(200)
    const second = await ofMonth(closed)
    expect(second).toMatchObject({ opening_rp: first?.closing_rp ?? 0, closing_rp: 19_992, time_zone: "Asia/Jakarta" })
  })

  test("of a month that is not closed is a draft, and there is none of before and after", async () => {
    const person = await world.signUp()
    const now = Temporal.Now.plainDateISO("Asia/Jakarta").toPlainYearMonth()
    for (const query of ["", `?month=${now.toString()}`]) {
      const { name, texts } = await pdf(`/account/statement.pdf${query}`, person.token)
      expect(name).toBe("loket-draft-statement")
      expect(texts).toContain("DRAF, belum bernomor")
    }
    for (const month of [now.add({ months: 1 }), now.subtract({ months: 1 })])
      expect((await pdf(`/account/statement.pdf?month=${month.toString()}`, person.token)).status).toBe(404)
    for (const month of ["2026-13", "%00"])
      expect((await pdf(`/account/statement.pdf?month=${month}`, person.token)).status).toBe(400)
  })

  test("of more rows than are listed is summed by the day, and adds up", async () => {
    const person = await world.signUp()
    await longKnown(person.id)
    await world.sql`
      insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason, created_at)
      select ${person.id} || n, 'house:x', ${person.id}, 1500000, 'top_up', ${`${closed}-05T03:00:00Z`}::timestamptz
      from generate_series(1, ${MAX_ROWS + 1}) n`
    await pdf(`/account/statement.pdf?month=${closed}`, person.token)
    const [row] = await world.sql<{ content: { entries: unknown[]; by_key: boolean; closing_rp: number } }[]>`
      select content from documents where account_id = ${person.id}`
    expect(row?.content).toMatchObject({ by_key: false, closing_rp: Math.round((MAX_ROWS + 1) * 1.5) })
    expect(row?.content.entries).toHaveLength(1)
  })

  test("of the most rows there are has pages, and others have their turn while it is drawn", async () => {
    const person = await world.signUp()
    await longKnown(person.id)
    await world.sql`
      insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason, created_at)
      select ${person.id} || n, 'house:x', ${person.id}, 1500000, 'top_up', ${`${closed}-05T03:00:00Z`}::timestamptz
      from generate_series(1, ${MAX_ROWS}) n`
    let turns = 0
    const timer = setInterval(() => turns++, 1)
    const { pages } = await pdf(`/account/statement.pdf?month=${closed}`, person.token)
    clearInterval(timer)
    expect(pages).toBeWithin(40, 80)
    expect(turns).toBeGreaterThan(20)
  })
})

const issuing = (accountId: string, subject: string) =>
  documentStore(world.db).issue({ kind: "refund", accountId, subject }, { subject })

describe("numbers", () => {
  test("have no gaps when twenty are issued at once, of which some fail and some are the same", async () => {
    const { id } = await world.signUp()
    const [begun] = await world.sql<{ next: string }[]>`
      select coalesce(max(next), 1)::text as next from document_counters where kind = 'refund'`
    const outcomes = await Promise.allSettled(
      Array.from({ length: 20 }, (_, n) => (n % 5 === 4 ? issuing("acc_nobody", `s${n}`) : issuing(id, `s${n % 10}`))),
    )
    expect(outcomes.filter(({ status }) => status === "rejected")).toHaveLength(4)
    const rows = await world.sql<{ place: string; number: string; subject: string }[]>`
      select place::text, number, subject from documents where account_id = ${id} order by documents.place`
    expect(new Set(rows.map(({ subject }) => subject)).size).toBe(rows.length)
    expect(rows.map(({ place }) => Number(place))).toEqual(rows.map((_, n) => Number(begun?.next) + n))
    expect(rows).toHaveLength(8)
    const numbers = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value.number] : []))
    expect([...new Set(numbers)].toSorted()).toEqual(rows.map(({ number }) => number).toSorted())
  })

  test("are not taken by more than an account may ask for", async () => {
    const person = await world.signUp()
    const id = await paid(person)
    const answers = await Promise.all(Array.from({ length: 8 }, () => pdf(`/top-ups/${id}/receipt.pdf`, person.token)))
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(4)
    expect(new Set(answers.flatMap(({ status, name }) => (status === 200 ? [name] : []))).size).toBe(1)
    expect(answers.every(({ status }) => status === 200 || status === 429)).toBe(true)
    await world.sql`update allowances set used = 299 where name = ${`documents ${person.id}`}`
    expect((await pdf(`/top-ups/${id}/receipt.pdf`, person.token)).status).toBe(200)
    expect((await pdf(`/top-ups/${id}/receipt.pdf`, person.token)).status).toBe(429)
  })
})

/** The thread that draws; each paper is drawn when a test says so. */
class DrawingThread extends EventTarget {
  static readonly papers: DrawingThread[] = []
  postMessage() {
    DrawingThread.papers.push(this)
  }
  draw() {
    this.dispatchEvent(new MessageEvent("message", { data: { drawn: new TextEncoder().encode("%PDF") } }))
  }
  terminate() {}
}

/** The one paper that is being drawn. */
async function paper(): Promise<DrawingThread> {
  for (let turn = 0; DrawingThread.papers.length === 0 && turn < 1_000; turn++) await Bun.sleep(0)
  expect(DrawingThread.papers).toHaveLength(1)
  return DrawingThread.papers.pop() as DrawingThread
}

const authenticate = async ({ headers }: Request) => {
  const who = headers.get("x-who") ?? ""
  return { ...ownerSession(who), id: who }
}
const refusalOf = ({ status, headers }: Response) => [status, headers.get("x-error-code"), headers.get("retry-after")]

describe("those who wait for a paper", () => {
  const content: DocumentContent = {
    format: 1,
    kind: "receipt",
    language: "en",
    time_zone: "Asia/Jakarta",
    seller: null,
    buyer: { name: "A", address: null, npwp: null, email: "a@example.com", account_id: "acc_one" },
    top_up_id: "a",
    refund_id: null,
    method: null,
    reference: null,
    reason: null,
    at: new Date().toISOString(),
    lines: [],
    total_rp: 0,
    vat: null,
  }
  const issued = { number: "KW-2026-000001", content, issuedAt: new Date() }
  let counted: string[] = []
  let count = Promise.resolve()
  const app = new Elysia().use(edge).use(
    documentsController({
      authenticate: Object.assign(authenticate, { changes: {} }),
      documents: { find: async () => issued },
      allowances: {
        async take({ name }: { readonly name: string }) {
          counted.push(name)
          await count
        },
      },
      now: Date.now,
    } as unknown as DocumentsDeps),
  )
  const handle = edgeHandler(app, { log: createLog("error", () => {}), now: Date.now })
  const ask = (accountId: string) =>
    handle(new Request("http://loket/top-ups/a/receipt.pdf", { headers: { "x-who": accountId } }), () => "")
  const refused = [429, "rate_limit.documents", "1"]
  const thread = globalThis.Worker
  beforeAll(() => void Object.assign(globalThis, { Worker: DrawingThread }))
  afterAll(() => void Object.assign(globalThis, { Worker: thread }))
  beforeEach(() => void (counted = []))

  test("are four of an account, one of which is counted and drawn; more are refused, and no other account's", async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    count = promise
    const four = Array.from({ length: 4 }, () => ask("acc_one"))
    expect(refusalOf(await ask("acc_one"))).toEqual(refused)
    const other = ask("acc_other")
    await Bun.sleep(0)
    expect(counted).toEqual(["documents acc_one", "documents acc_other"])
    resolve()
    for (let n = 0; n < 5; n++) (await paper()).draw()
    for (const answer of [...four, other]) expect((await answer).status).toBe(200)
    expect(DrawingThread.papers).toEqual([])
  })

  test("are 64 of all accounts, one of which is drawn; more are refused until it is", async () => {
    const all = Array.from({ length: 64 }, (_, n) => ask(`acc_${n}`))
    const first = await paper()
    expect(refusalOf(await ask("acc_more"))).toEqual(refused)
    first.draw()
    expect((await all[0])?.status).toBe(200)
    all.push(ask("acc_more"))
    for (let n = 0; n < 64; n++) (await paper()).draw()
    for (const answer of all) expect(await (await answer).text()).toBe("%PDF")
  })
})

test.each([
  [111_000, 1_100, true, 11_000, 100_000],
  [10_000, 1_100, true, 991, 9_009],
  [1, 1_100, true, 0, 1],
  [50, 100, false, 1, 50],
  [49, 100, false, 0, 49],
])(
  "VAT of Rp %i at %i basis points, included: %p, is Rp %i beside Rp %i",
  (total, basisPoints, isIncluded, vat, base) => {
    expect(vatOf(total, { basisPoints, isIncluded })).toMatchObject({ vat_rp: vat, base_rp: base })
  },
)

test("half a rupiah is rounded up, below zero too", () => {
  const halves = [500_000n, 499_999n, -500_000n, -500_001n, -1_500_000n, 0n]
  expect(halves.map(wholeRupiah)).toEqual([1, 0, 0, -1, -1, 0])
})

/** A month that begins with Rp 100, of such rows from the oldest. */
function monthOf(rows: readonly Partial<StatementEntry>[]) {
  const none = { at: null, claim_micro: 0, calls: null, key_id: null, top_up_id: null, note: null }
  let balance = 100 * RP
  const entries = rows.map((row) => {
    balance += row.amount_micro ?? 0
    return { ...none, ...row, balance_micro: balance }
  })
  const month = {
    month: "2026-10",
    opening_micro: 100 * RP,
    claim_micro: 0,
    by_key: true,
    entries: entries.toReversed(),
  }
  return statementOf(month as unknown as Parameters<typeof statementOf>[0], new Map([["key_a", "One"]]))
}
const calls = (key_id: string, count: number) =>
  ({ day: "2026-10-05", kind: "calls", amount_micro: -400_000, calls: count, key_id }) as const
/** As many as half of the most rows. */
const half = (row: Partial<StatementEntry>) => Array.from({ length: MAX_ROWS / 2 }, () => row)

test("a statement of more rows than are listed has one for each day and kind, which add up", () => {
  const paidIn = { day: "2026-10-05", kind: "top_up", amount_micro: 1_500_000, top_up_id: "top_1" } as const
  const taken = { day: "2026-10-06", kind: "adjustment", amount_micro: -RP, note: "a note" } as const
  const row = { key: null, note: null, top_up_id: null }
  expect(monthOf([calls("key_a", 3), ...half(paidIn), calls("key_b", 4), ...half(taken)])).toMatchObject({
    opening_rp: 100,
    in_rp: 1_500,
    out_rp: 1_001,
    closing_rp: 599,
    by_key: false,
    entries: [
      { ...row, day: "2026-10-05", kind: "calls", amount_rp: -1, balance_rp: 99, calls: 7 },
      { ...row, day: "2026-10-05", kind: "top_up", amount_rp: 1_500, balance_rp: 1_599, calls: null },
      { ...row, day: "2026-10-06", kind: "adjustment", amount_rp: -1_000, balance_rp: 599, calls: null },
    ],
  })
})

test("a statement of fewer rows has each, with its key's name where it has one", () => {
  expect(monthOf([calls("key_a", 3), calls("key_b", 4)])).toMatchObject({
    in_rp: 0,
    out_rp: 1,
    closing_rp: 99,
    by_key: true,
    entries: [
      { key: "One", calls: 3, amount_rp: 0, balance_rp: 100 },
      { key: "key_b", calls: 4, amount_rp: -1, balance_rp: 99 },
    ],
  })
})
