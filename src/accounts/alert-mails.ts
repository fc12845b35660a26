/** The mails that owners are written of their own account: by kind of event, in the account's language. */
import { micro, MICRO_PER_RUPIAH, rupiahText } from "../../actors/money/micro.ts"
import type { Mail } from "./owner-mail.ts"
import type { Language } from "../store/account-settings.ts"
import type { TakenMail } from "../store/outbox.ts"
import { announcementMail } from "./announcement-mails.ts"

type Data = Readonly<Record<string, unknown>>
type Text = Omit<Mail, "to">

interface BudgetData {
  readonly key_name: string
  readonly period: "daily" | "monthly" | "total"
  readonly percent: number
  readonly spent_micro: number
  readonly limit_micro: number
}

interface SpendingData {
  /** Null for the account. */
  readonly key_name: string | null
  readonly why: "ceiling" | "usual"
  readonly spent_micro: number
  readonly threshold_micro: number
}

/** Undefined for a kind that a newer process has written. */
export function mailOf({ email, kind, language, data }: TakenMail): Mail | undefined {
  const text = texts[kind]?.[language](data) ?? announcementMail(kind, language, data)
  return text && { to: email, ...text }
}

/** Whole rupiah, rounded down: a mail never names more than there is. */
const rupiahIn = (language: Language) => (amount: unknown) => {
  const exact = BigInt(typeof amount === "number" ? amount : 0)
  return rupiahText(micro(exact - (exact % MICRO_PER_RUPIAH)), language)
}
const rupiah = { id: rupiahIn("id"), en: rupiahIn("en") } as const

/** Nobody proves that the address is theirs: a mail to a stranger has room for few words of whoever named the keys. */
const KEYS_LISTED = 20

function listed(
  keys: readonly BudgetData[],
  line: (key: BudgetData) => string,
  more: (rest: number) => string,
): string {
  const rest = keys.length - KEYS_LISTED
  return [...keys.slice(0, KEYS_LISTED).map(line), ...(rest > 0 ? [more(rest)] : [])].join("\n")
}

/** In UTC, to the minute. */
const instant = (text: string): string => `${new Date(text).toISOString().slice(0, 16).replace("T", " ")} UTC`

const budgets = (data: Data) => (Array.isArray(data["keys"]) ? data["keys"] : []) as readonly BudgetData[]

const alerts = (data: Data) => (Array.isArray(data["alerts"]) ? data["alerts"] : []) as readonly SpendingData[]

const texts: Readonly<Record<string, Readonly<Record<Language, (data: Data) => Text>>>> = {
  "balance.low": {
    id: ({ balance_micro: balance, threshold_micro: threshold }) => ({
      subject: `Saldo Loket Anda tinggal ${rupiah.id(balance)}`,
      text: `Halo,

Saldo akun Loket Anda tinggal ${rupiah.id(balance)}, di bawah batas ${rupiah.id(threshold)} yang Anda tetapkan.
Isi ulang di dasbor Loket agar permintaan Anda tidak ditolak karena saldo kurang.

E-mail ini dikirim sekali setiap kali saldo turun di bawah batas. Batas dan alamat e-mail dapat diubah di pengaturan akun.
`,
    }),
    en: ({ balance_micro: balance, threshold_micro: threshold }) => ({
      subject: `Your Loket balance is down to ${rupiah.en(balance)}`,
      text: `Hello,

The balance of your Loket account is down to ${rupiah.en(balance)}, below the ${rupiah.en(threshold)} that you set.
Top it up in the Loket dashboard, so that your requests are not refused for want of balance.

This mail is sent once each time the balance falls below what you set. You can change that, and the address, in your
account's settings.
`,
    }),
  },
  "budget.reached": {
    id: (data) => {
      const keys = budgets(data)
      const [first] = keys
      const periods = { daily: "per hari", monthly: "per bulan", total: "seluruhnya" } as const
      const full = keys.some(({ percent }) => percent >= 100)
      return {
        subject:
          keys.length === 1 && first !== undefined
            ? first.percent >= 100
              ? `Batas pengeluaran kunci "${first.key_name}" habis`
              : `Kunci "${first.key_name}" sudah memakai ${first.percent}% batas pengeluarannya`
            : `${keys.length} kunci API mendekati atau mencapai batas pengeluaran`,
        text: `Halo,

Pengeluaran kunci API Loket Anda:

${listed(
  keys,
  (key) =>
    `- ${key.key_name}: ${rupiah.id(key.spent_micro)} dari ${rupiah.id(key.limit_micro)} ${periods[key.period]} (${key.percent}% tercapai)`,
  (rest) => `- dan ${rest} kunci lain`,
)}

${
  full
    ? "Permintaan dari kunci yang batasnya habis ditolak sampai periodenya berganti atau batasnya dinaikkan di dasbor Loket."
    : "Kalau batasnya habis, permintaan dari kunci itu ditolak sampai periodenya berganti atau batasnya dinaikkan."
}

E-mail ini dikirim saat pemakaian mencapai 50, 80, dan 100 persen, sekali untuk setiap periode. Anda dapat mematikannya di
pengaturan akun.
`,
      }
    },
    en: (data) => {
      const keys = budgets(data)
      const [first] = keys
      const periods = { daily: "a day", monthly: "a month", total: "in all" } as const
      const full = keys.some(({ percent }) => percent >= 100)
      return {
        subject:
          keys.length === 1 && first !== undefined
            ? first.percent >= 100
              ? `The spending limit of key "${first.key_name}" is used up`
              : `Key "${first.key_name}" has used ${first.percent}% of its spending limit`
            : `${keys.length} API keys are near or at their spending limit`,
        text: `Hello,

What your Loket API keys have spent:

${listed(
  keys,
  (key) =>
    `- ${key.key_name}: ${rupiah.en(key.spent_micro)} of ${rupiah.en(key.limit_micro)} ${periods[key.period]} (${key.percent}% reached)`,
  (rest) => `- and ${rest} more ${rest === 1 ? "key" : "keys"}`,
)}

${
  full
    ? "Requests of a key whose limit is used up are refused until its period ends or the limit is raised in the Loket dashboard."
    : "Once a limit is used up, requests of that key are refused until its period ends or the limit is raised."
}

This mail is sent when 50, 80 and 100 percent are reached, once for each period. You can turn it off in your account's
settings.
`,
      }
    },
  },
  "spending.unusual": {
    id: (data) => {
      const found = alerts(data)
      const [first] = found
      return {
        subject:
          found.length === 1 && first !== undefined && first.key_name !== null
            ? `Pengeluaran kunci "${first.key_name}" tidak seperti biasa`
            : "Pengeluaran akun Loket Anda tidak seperti biasa",
        text: `Halo,

Dalam 10 menit terakhir:

${found
  .map(
    ({ key_name: name, why, spent_micro: spent, threshold_micro: threshold }) =>
      `- ${name === null ? "Semua kunci" : `Kunci "${name}"`}: ${rupiah.id(spent)}, ${
        why === "ceiling"
          ? `di atas batas ${rupiah.id(threshold)} yang Anda tetapkan`
          : `jauh di atas yang biasa pada jam ini (peringatan mulai ${rupiah.id(threshold)})`
      }`,
  )
  .join("\n")}

Jika bukan Anda, cabut atau rotasi kuncinya di dasbor Loket. E-mail ini dikirim sekali sampai pengeluaran kembali biasa selama
satu jam. Batas dan peringatannya dapat diubah di pengaturan akun.
`,
      }
    },
    en: (data) => {
      const found = alerts(data)
      const [first] = found
      return {
        subject:
          found.length === 1 && first !== undefined && first.key_name !== null
            ? `Key "${first.key_name}" spends more than usual`
            : "Your Loket account spends more than usual",
        text: `Hello,

In the last 10 minutes:

${found
  .map(
    ({ key_name: name, why, spent_micro: spent, threshold_micro: threshold }) =>
      `- ${name === null ? "All keys" : `Key "${name}"`}: ${rupiah.en(spent)}, ${
        why === "ceiling"
          ? `over the ceiling of ${rupiah.en(threshold)} that you set`
          : `far more than is usual at this hour (the warning begins at ${rupiah.en(threshold)})`
      }`,
  )
  .join("\n")}

If this is not you, revoke or rotate the key in the Loket dashboard. This mail is sent once, until spending has been usual for
an hour again. The ceiling and the warning can be changed in your account's settings.
`,
      }
    },
  },
  "key.paused": {
    id: ({ key_name: name, spent_micro: spent, ceiling_micro: ceiling, until }) => ({
      subject: typeof name === "string" ? `Kunci "${name}" dijeda` : "Semua kunci API Loket Anda dijeda",
      text: `Halo,

${typeof name === "string" ? `Kunci "${name}"` : "Akun Loket Anda"} memakai ${rupiah.id(spent)} dalam 10 menit. Batas yang Anda tetapkan ${rupiah.id(ceiling)}, dan panggilan
berikutnya akan melewatinya. Sejak saat itu panggilannya ditolak${typeof until === "string" ? `, sampai ${instant(until)}` : ", sampai Anda melanjutkannya"}.

Jika bukan Anda, cabut atau rotasi kuncinya. Jika memang Anda, lanjutkan dengan satu klik di halaman kunci API dasbor Loket.
`,
    }),
    en: ({ key_name: name, spent_micro: spent, ceiling_micro: ceiling, until }) => ({
      subject: typeof name === "string" ? `Key "${name}" is paused` : "All your Loket API keys are paused",
      text: `Hello,

${typeof name === "string" ? `The key "${name}"` : "Your Loket account"} has spent ${rupiah.en(spent)} within 10 minutes. The ceiling that you set is ${rupiah.en(ceiling)}, and the next call
would have passed it. Its calls are refused from then on${typeof until === "string" ? `, until ${instant(until)}` : ", until you resume them"}.

If this is not you, revoke or rotate the key. If it is, resume it with one click on the page of API keys in the Loket dashboard.
`,
    }),
  },
  "webhook.disabled": {
    id: ({ url }) => ({
      subject: "Webhook Loket Anda dinonaktifkan",
      text: `Halo,

Webhook akun Loket Anda dinonaktifkan karena kiriman ke alamat ini terus gagal atau ditolak selamanya (410):

${String(url)}

Kejadian baru tidak lagi dikirim ke sana. Perbaiki penerimanya, lalu simpan alamatnya sekali lagi di pengaturan akun untuk
mengaktifkannya kembali.
`,
    }),
    en: ({ url }) => ({
      subject: "Your Loket webhook has been turned off",
      text: `Hello,

The webhook of your Loket account has been turned off, because deliveries to this address kept failing, or were refused for
good (410):

${String(url)}

New events are no longer sent there. Mend the receiver, then save the address once more in your account's settings to turn
the webhook on again.
`,
    }),
  },
}
