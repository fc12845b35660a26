/** The paper that is drawn of what a receipt or a statement says, in the account's language when it was issued. */
import { micro, MICRO_PER_RUPIAH, rupiahText } from "../../../actors/money/micro.ts"
import type { Paper } from "../../pdf/paper.ts"
import type { Language } from "../../store/account-settings.ts"
import type { IssuedDocument } from "../../store/documents.ts"
import type { DocumentContent, DocumentFrame, Party, PaymentContent, StatementContent } from "./document-content.ts"

/** Without `issued` it is a draft. */
export function paperOf(content: DocumentContent, issued: IssuedDocument | undefined, now: Date): Paper {
  const { language, seller, buyer, kind } = content
  const text = words[language]
  const issuedAt = issued?.issuedAt ?? now
  const own = kind === "statement" ? statementPaper(content) : paymentPaper(content)
  const reason = seller === null ? text.noSeller : text.open
  return {
    ...own,
    title: text.titles[kind],
    number: issued === undefined ? text.draft : text.number(issued.number),
    language,
    isDraft: issued === undefined,
    issuedAt,
    parties: [
      { title: text.seller, lines: seller === null ? ["-"] : partyLines(seller, text.npwp) },
      {
        title: text.buyer,
        lines: [
          ...partyLines(buyer, text.npwp),
          ...(buyer.name === buyer.email ? [] : [buyer.email]),
          `${text.account} ${buyer.account_id}`,
        ],
      },
    ],
    facts: [...own.facts, [issued === undefined ? text.madeAt : text.issuedAt, momentIn(issuedAt, content)]],
    notes: [...(issued === undefined ? [reason] : []), ...own.notes, text.noTaxInvoice],
    pageOf: text.pageOf,
  }
}

type Own = Pick<Paper, "facts" | "columns" | "rows" | "totals" | "notes">

function paymentPaper(content: PaymentContent): Own {
  const { kind, language, lines, vat, total_rp: total } = content
  const text = words[language]
  const facts: readonly (readonly [string, string | null])[] = [
    [kind === "receipt" ? text.paidAt : text.paidOutAt, momentIn(new Date(content.at), content)],
    [text.topUp, content.top_up_id],
    [text.refund, content.refund_id],
    [text.method, content.method === null ? null : methodName(content.method)],
    [text.reference, content.reference === content.top_up_id ? null : content.reference],
    [text.reason, content.reason],
  ]
  const percent = vat === null ? "" : numbers[language].format(vat.bps / 100)
  return {
    facts: facts.flatMap(([name, value]) => (value === null ? [] : [[name, value] as const])),
    columns: [
      { head: text.what, width: 3 },
      { head: text.amount, width: 1, isNumeric: true },
    ],
    rows: lines.map(({ what, amount_rp: amount }) => [text.lines[what], rupiah(amount, language)]),
    totals: [
      { name: kind === "receipt" ? text.totalPaid : text.totalBack, value: rupiah(total, language), isStrong: true },
      ...(vat?.included === true ? [{ name: text.base, value: rupiah(vat.base_rp, language) }] : []),
      ...(vat === null
        ? []
        : [
            { name: vat.included ? text.vatIn(percent) : text.vatBeside(percent), value: rupiah(vat.vat_rp, language) },
          ]),
    ],
    notes: vat === null ? [] : [vat.included ? text.vatInNote : text.vatBesideNote],
  }
}

function statementPaper(content: StatementContent): Own {
  const { language, month, entries, claim_rp: claim } = content
  const text = words[language]
  const money = (amount: number) => rupiah(amount, language)
  const days = new Map(
    [...new Set(entries.map((entry) => entry.day))].map((date) => [
      date,
      dated(new Date(`${date}T12:00:00Z`), language, { day: "2-digit", month: "short" }),
    ]),
  )
  return {
    facts: [[text.month, dated(new Date(`${month}-15T12:00:00Z`), language, { month: "long", year: "numeric" })]],
    columns: [
      { head: text.day, width: 0.8 },
      { head: text.what, width: 3.4 },
      { head: text.in, width: 1.2, isNumeric: true },
      { head: text.out, width: 1.2, isNumeric: true },
      { head: text.balance, width: 1.3, isNumeric: true },
    ],
    rows: [
      ["", text.opening, "", "", money(content.opening_rp)],
      ...entries.map(({ kind, amount_rp: amount, ...entry }) => [
        days.get(entry.day) ?? entry.day,
        [
          text.kinds[kind],
          ...(entry.key === null ? [] : [entry.key]),
          ...(entry.calls === null ? [] : [text.calls(numbers[language].format(entry.calls), entry.calls)]),
          ...(entry.note === null ? [] : [entry.note]),
          ...(entry.top_up_id === null ? [] : [entry.top_up_id]),
        ].join(" · "),
        amount > 0 ? money(amount) : "",
        amount > 0 ? "" : money(-amount),
        money(entry.balance_rp),
      ]),
    ],
    totals: [
      { name: text.opening, value: money(content.opening_rp) },
      { name: text.in, value: money(content.in_rp) },
      { name: text.out, value: money(-content.out_rp) },
      { name: text.closing, value: money(content.closing_rp), isStrong: true },
      ...(claim === 0 ? [] : [{ name: text.claim, value: money(claim) }]),
    ],
    notes: [text.zone(content.time_zone), ...(content.by_key ? [] : [text.byDay]), text.rounding],
  }
}

const partyLines = ({ name, address, npwp }: Party, label: string) => [
  name,
  ...(address === null ? [] : address.split("\n")),
  ...(npwp === null ? [] : [`${label} ${npwpText(npwp)}`]),
]

/** The old form is written with points, the newer one is not. */
const npwpText = (npwp: string): string => npwp.replace(/^(\d\d)(\d{3})(\d{3})(\d)(\d{3})(\d{3})$/, "$1.$2.$3.$4-$5.$6")

/** Made once: a statement has thousands of entries. */
const numbers = { id: new Intl.NumberFormat("id"), en: new Intl.NumberFormat("en") } as const

const methodName = (provider: string): string => (provider === "midtrans" ? "QRIS" : provider)

const rupiah = (amount: number, language: Language): string =>
  rupiahText(micro(BigInt(amount) * MICRO_PER_RUPIAH), language)

const dated = (at: Date, language: Language, form: Intl.DateTimeFormatOptions): string =>
  new Intl.DateTimeFormat(language === "id" ? "id-ID" : "en-GB", { timeZone: "UTC", ...form }).format(at)

const momentIn = (at: Date, { language, time_zone: timeZone }: DocumentFrame): string =>
  dated(at, language, {
    timeZone,
    day: "numeric",
    month: "long",
    year: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    timeZoneName: "short",
  })

const words = {
  id: {
    titles: { receipt: "Kuitansi", refund: "Bukti pengembalian dana", statement: "Rekening koran" },
    number: (number: string) => `Nomor ${number}`,
    draft: "DRAF, belum bernomor",
    noSeller: "Draf: penjual belum diisi oleh operator, jadi dokumen ini belum diterbitkan.",
    open: "Draf: bulan ini belum ditutup. Dokumen bernomor tersedia sehari setelah bulan berakhir.",
    seller: "Penjual",
    buyer: "Pembeli",
    npwp: "NPWP",
    account: "Akun",
    issuedAt: "Diterbitkan",
    madeAt: "Dibuat",
    paidAt: "Dibayar",
    paidOutAt: "Dikembalikan",
    topUp: "Isi saldo",
    refund: "Pengembalian",
    method: "Cara bayar",
    reference: "Referensi",
    reason: "Alasan",
    what: "Keterangan",
    amount: "Jumlah",
    lines: {
      balance: "Saldo untuk panggilan model AI",
      service_fee: "Biaya layanan",
      payment_fee: "Biaya pembayaran",
      network_fee: "Biaya jaringan",
      fees: "Biaya",
    },
    totalPaid: "Total dibayar",
    totalBack: "Total dikembalikan",
    base: "Dasar pengenaan pajak (DPP)",
    vatIn: (percent: string) => `PPN ${percent}%, sudah termasuk`,
    vatBeside: (percent: string) => `PPN ${percent}%, belum termasuk`,
    vatInNote: "PPN dibulatkan ke rupiah terdekat; DPP adalah sisanya, sehingga DPP + PPN = total.",
    vatBesideNote: "PPN dihitung dari total, dibulatkan ke rupiah terdekat, dan tidak dipungut dalam pembayaran ini.",
    noTaxInvoice: "Dokumen ini bukan faktur pajak.",
    month: "Bulan",
    day: "Tanggal",
    in: "Masuk",
    out: "Keluar",
    balance: "Saldo",
    opening: "Saldo awal",
    closing: "Saldo akhir",
    claim: "Tagihan karena pembayaran ditarik kembali",
    calls: (count: string, _of: number) => `${count} panggilan`,
    kinds: {
      top_up: "Isi saldo",
      calls: "Panggilan",
      adjustment: "Penyesuaian oleh operator",
      trial_credit: "Kredit percobaan",
      refund: "Pengembalian dana",
      refund_cancelled: "Pengembalian dana dibatalkan",
      provider_refund: "Dikembalikan oleh penyedia pembayaran",
      chargeback: "Ditarik kembali oleh bank pembayar",
      claim: "Pelunasan tagihan",
      other: "Lain-lain",
    },
    zone: (zone: string) => `Tanggal menurut zona waktu ${zone}. Panggilan dihitung pada hari dimulainya.`,
    byDay: "Baris bulan ini terlalu banyak, jadi dijumlahkan per hari tanpa rincian per kunci.",
    rounding:
      "Saldo dibulatkan ke rupiah terdekat, dan setiap jumlah adalah selisih dua saldo yang sudah dibulatkan, sehingga semua baris berjumlah tepat.",
    pageOf: "Halaman {page} dari {pages}",
  },
  en: {
    titles: { receipt: "Receipt", refund: "Refund receipt", statement: "Account statement" },
    number: (number: string) => `Number ${number}`,
    draft: "DRAFT, not numbered",
    noSeller: "Draft: the operator has not said who sells, so this document is not issued yet.",
    open: "Draft: this month is not closed. The numbered document is there a day after the month's end.",
    seller: "Seller",
    buyer: "Buyer",
    npwp: "Tax number (NPWP)",
    account: "Account",
    issuedAt: "Issued",
    madeAt: "Made",
    paidAt: "Paid",
    paidOutAt: "Paid back",
    topUp: "Top-up",
    refund: "Refund",
    method: "Method",
    reference: "Reference",
    reason: "Reason",
    what: "Description",
    amount: "Amount",
    lines: {
      balance: "Balance for calls of AI models",
      service_fee: "Service fee",
      payment_fee: "Payment fee",
      network_fee: "Network fee",
      fees: "Fees",
    },
    totalPaid: "Total paid",
    totalBack: "Total paid back",
    base: "Taxable amount",
    vatIn: (percent: string) => `VAT ${percent}%, included`,
    vatBeside: (percent: string) => `VAT ${percent}%, not included`,
    vatInNote:
      "VAT is rounded to the nearest rupiah; the taxable amount is the rest, so that both add up to the total.",
    vatBesideNote: "VAT is of the total, rounded to the nearest rupiah, and not collected with this payment.",
    noTaxInvoice: "This document is not a tax invoice.",
    month: "Month",
    day: "Date",
    in: "In",
    out: "Out",
    balance: "Balance",
    opening: "Opening balance",
    closing: "Closing balance",
    claim: "Claim for payments that were taken back",
    calls: (count: string, of: number) => `${count} ${of === 1 ? "call" : "calls"}`,
    kinds: {
      top_up: "Top-up",
      calls: "Calls",
      adjustment: "Adjustment by the operator",
      trial_credit: "Trial credit",
      refund: "Refund",
      refund_cancelled: "Refund cancelled",
      provider_refund: "Refunded by the payment provider",
      chargeback: "Taken back by the payer's bank",
      claim: "Claim settled",
      other: "Other",
    },
    zone: (zone: string) => `Dates are of the time zone ${zone}. Calls count on the day on which they began.`,
    byDay: "This month has too many rows, so they are summed by the day, without keys.",
    rounding:
      "Balances are rounded to the nearest rupiah, and each amount is the step between two rounded balances, so that all rows add up exactly.",
    pageOf: "Page {page} of {pages}",
  },
} as const
