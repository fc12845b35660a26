/**
 * Receipts of top-ups and refunds, and monthly statements, as PDF. Each is issued when it is first asked for: it gets its number,
 * and what it says is kept, so that it is the same ever after. What may still change is a draft without a number: the statement
 * of a month until a day after its end, and everything while it is not configured who sells. Whole rupiah.
 */
import { Elysia } from "elysia"
import type { Session } from "../../accounts/accounts.ts"
import { Failure } from "../../failure/failure.ts"
import { print } from "../../pdf/reader.ts"
import type { AllowanceStore } from "../../store/allowances.ts"
import type { DocumentKind, DocumentStore, IssuedDocument } from "../../store/documents.ts"
import { turns } from "../../store/gate.ts"
import { OF_A_TOP_UP } from "../../payments/refunds.ts"
import type { RefundStore } from "../../store/refunds.ts"
import type { TopUpStore } from "../../store/top-ups.ts"
import {
  backBefore,
  buyerOf,
  type DocumentContent,
  type DocumentFrame,
  type PaymentContent,
  receiptOf,
  refundReceiptOf,
  type Seller,
  statementOf,
  vatOfStep,
  wholeRupiah,
} from "./document-content.ts"
import { paperOf } from "./document-paper.ts"
import { signedInBy, tooOften } from "./session.ts"
import { statement, type StatementDeps, statementQuery } from "./statement.ts"

export interface DocumentsDeps extends StatementDeps {
  readonly documents: DocumentStore
  readonly topUps: Pick<TopUpStore, "find">
  readonly refunds: Pick<RefundStore, "find" | "list">
  readonly allowances: Pick<AllowanceStore, "take">
  /** Undefined while nobody has said. */
  readonly seller: Seller | undefined
}

/** The database takes no NUL. */
const SUBJECT = /^[\w-]{1,80}$/
const MAX_AN_HOUR = 300
const HOUR_S = 3_600
/** Of one account in one process: one is made, the others wait. */
const MAX_AT_ONCE = 4
/** Of all accounts that wait for their paper to be drawn; one is. */
const MOST_WAITING = 64
/** Calls that began in a month have ended by then, and are booked. */
const SETTLED_MS = 24 * 60 * 60 * 1000

export const documentsController = (deps: DocumentsDeps) => {
  const { documents, allowances, seller, now = Date.now } = deps
  const signedIn = signedInBy(deps.authenticate)
  const inTurn = turns({ atOnce: 1, most: MAX_AT_ONCE, refused })
  const inDrawingTurn = turns({ atOnce: 1, most: MOST_WAITING, refused })

  const send = async (
    { accountId }: Session,
    kind: DocumentKind,
    subject: string | undefined,
    find: () => Promise<{ readonly content: DocumentContent; readonly isFinal: boolean } | Failure>,
  ): Promise<Response | Failure> =>
    await inTurn(accountId, async () => {
      const tooMany = await tooOften(
        allowances,
        { name: `documents ${accountId}`, most: MAX_AN_HOUR, seconds: HOUR_S },
        (retryAfterS) => new Failure("rate_limit.documents", { retryAfterS }),
      )
      if (tooMany !== undefined) return tooMany
      const named = subject === undefined || !SUBJECT.test(subject) ? undefined : { kind, accountId, subject }
      if (named === undefined && kind !== "statement") return notThere()
      const before = named && (await documents.find(named))
      if (before !== undefined) return await pdf(before.content as DocumentContent, before)
      const found = await find()
      if (found instanceof Failure) return found
      const { content, isFinal } = found
      if (named === undefined || !isFinal || seller === undefined) return await pdf(content, undefined)
      const issued = await documents.issue(named, content)
      return await pdf(issued.content as DocumentContent, issued)
    })

  const pdf = async (content: DocumentContent, issued: IssuedDocument | undefined) => {
    const bytes = await inDrawingTurn("", () => print(paperOf(content, issued, new Date(now()))))
    if (bytes instanceof Failure) return bytes
    const name = issued?.number ?? `loket-draft-${content.kind}`
    return new Response(bytes as Uint8Array<ArrayBuffer>, {
      headers: {
        "content-type": "application/pdf",
        "content-disposition": `attachment; filename="${name}.pdf"`,
        "cache-control": "no-store",
      },
    })
  }

  const frame = async (session: Session, timeZone?: string): Promise<DocumentFrame | Failure> => {
    const account = await deps.accounts.account(session)
    return account instanceof Failure
      ? account
      : {
          format: 1,
          language: account.language,
          time_zone: timeZone ?? account.timeZone,
          seller: seller?.party ?? null,
          buyer: buyerOf(account),
        }
  }

  const payment = async (
    session: Session,
    of: Omit<PaymentContent, keyof DocumentFrame | "total_rp" | "vat">,
    beforeMicro = 0n,
  ) => {
    const framed = await frame(session)
    if (framed instanceof Failure) return framed
    const total = of.lines.reduce((sum, { amount_rp: amount }) => sum + amount, 0)
    return {
      content: { ...framed, ...of, total_rp: total, vat: vatOfStep(wholeRupiah(beforeMicro), total, seller?.vat) },
      isFinal: true,
    }
  }

  return new Elysia({ name: "dashboard/documents" })
    .get(
      ...signedIn(
        "/top-ups/:id/receipt.pdf",
        {
          may: "books",
          // It would be numbered, and counted, as if the customer had asked for it.
          whenSeen: "refused",
          tag: "Top-ups",
          summary: {
            en: "The receipt of a paid top-up as PDF, numbered and unchanging from its first request on",
            id: "Kuitansi isi saldo yang sudah dibayar, sebagai PDF; bernomor dan tidak berubah sejak pertama diminta",
          },
          media: "application/pdf",
        },
        async ({ session, params: { id } }) =>
          await send(session, "receipt", id, async () => {
            const topUp = await deps.topUps.find(id)
            if (topUp?.accountId !== session.accountId || topUp.paidAt === undefined) return notThere()
            return await payment(session, receiptOf(topUp, topUp.paidAt))
          }),
      ),
    )
    .get(
      ...signedIn(
        "/refunds/:id/receipt.pdf",
        {
          may: "books",
          // It would be numbered, and counted, as if the customer had asked for it.
          whenSeen: "refused",
          tag: "Top-ups",
          summary: {
            en: "The receipt of a refund that was paid out as PDF, numbered and unchanging from its first request on",
            id: "Kuitansi pengembalian dana yang sudah dibayarkan, sebagai PDF; bernomor dan tidak berubah sejak pertama diminta",
          },
          media: "application/pdf",
        },
        async ({ session, params: { id } }) =>
          await send(session, "refund", id, async () => {
            const refund = await deps.refunds.find(id)
            if (refund?.accountId !== session.accountId || refund.paidOutAt === undefined) return notThere()
            const all =
              refund.topUpId === undefined ? [] : await deps.refunds.list({ topUpId: refund.topUpId }, OF_A_TOP_UP)
            const before = backBefore(refund, all)
            return await payment(session, refundReceiptOf(refund, refund.paidOutAt, before), before)
          }),
      ),
    )
    .get(
      ...signedIn(
        "/account/statement.pdf",
        {
          may: "books",
          // It would be numbered, and counted, as if the customer had asked for it.
          whenSeen: "refused",
          tag: "Account",
          summary: { en: "The statement of a month as PDF", id: "Mutasi satu bulan sebagai PDF" },
          description: {
            en: "A day after the month's end it is numbered and unchanging from its first request on; before, it is a draft.",
            id: "Sehari setelah bulannya berakhir, mutasi diberi nomor dan tidak berubah sejak pertama diminta; sebelum itu masih rancangan.",
          },
          query: statementQuery,
          media: "application/pdf",
        },
        async ({ session, query: { month } }) =>
          await send(session, "statement", month, async () => {
            // By another zone a month would not begin where the one before it ended.
            const timeZone = (await documents.statementZone(session.accountId)) ?? session.timeZone
            const found = await statement(deps, { ...session, timeZone }, month)
            if (found instanceof Failure) return found
            if (found.month < found.first_month || Date.parse(found.from) > now()) return notThere()
            const keyIds = [...new Set(found.entries.flatMap(({ key_id: id }) => id ?? []))]
            const [framed, names] = await Promise.all([
              frame(session, timeZone),
              documents.keyNames(session.accountId, keyIds),
            ])
            if (framed instanceof Failure) return framed
            const content = { ...framed, ...statementOf(found, names) }
            return { content, isFinal: Date.parse(found.to) + SETTLED_MS <= now() }
          }),
      ),
    )
}

const notThere = () => new Failure("resource.not_found")
const refused = () => new Failure("rate_limit.documents", { retryAfterS: 1 })
