/** The mails of coming prices and retired models, in the account's language and at its own clock. Amounts are exact. */
import { micro, MICRO_PER_RUPIAH, rupiahText } from "../../actors/money/micro.ts"
import type { Mail } from "./owner-mail.ts"
import type { Language } from "../store/account-settings.ts"
import type { AnnouncementStore } from "../store/announcements.ts"
import { DatabaseUnavailable } from "../store/database.ts"

type Text = Omit<Mail, "to">

/** Micro-rupiah, and milliseconds since 1970. */
interface Change {
  readonly model: string
  readonly display_name: string
  /** Of a price. */
  readonly begins_at_ms?: number
  /** Of a retired model. */
  readonly target?: string
  readonly target_name?: string | null
  readonly until_ms?: number
  readonly calls?: number
  /** Null where the price of what it is served as is not known. */
  readonly difference_micro?: number | null
  readonly from?: readonly number[]
  readonly to?: readonly (number | null)[]
}

/** A mail is read; who uses more models than this sees the others in the dashboard. */
const MAX_LISTED = 30

/** `data` is what `src/store/announcements.ts` puts into the mail. Undefined for a kind that is no announcement. */
export function announcementMail(
  kind: string,
  language: Language,
  data: Readonly<Record<string, unknown>>,
): Text | undefined {
  const text = texts[language]
  const changes = (Array.isArray(data["changes"]) ? data["changes"] : []) as readonly Change[]
  const [first] = changes
  const said = first && text.kinds[kind]?.(changes.length, first, written(language, String(data["time_zone"])))
  if (said === undefined) return undefined
  const listed = changes.slice(0, MAX_LISTED).map((change) => said.item(change))
  const more = changes.length - MAX_LISTED
  const items = [...listed, ...(more > 0 ? [text.more(more)] : [])].map((item) => `- ${item}`).join("\n\n")
  return { subject: said.subject, text: `${text.hello},\n\n${said.intro}\n\n${items}\n\n${said.end}\n` }
}

interface AnnouncementText {
  readonly subject: string
  readonly intro: string
  readonly item: (change: Change) => string
  readonly end: string
}
type Kind = (count: number, first: Change, write: ReturnType<typeof written>) => AnnouncementText
interface Texts {
  readonly hello: string
  readonly more: (count: number) => string
  readonly kinds: Readonly<Record<string, Kind>>
}

/** Amounts and times as the dashboard writes them. */
function written(language: Language, timeZone: string) {
  const locale = language === "id" ? "id-ID" : "en-GB"
  const time = new Intl.DateTimeFormat(locale, {
    ...({ day: "numeric", month: "long", year: "numeric", hour: "2-digit", minute: "2-digit" } as const),
    timeZoneName: "short",
    timeZone,
  })
  const rupiah = (amount: bigint) => rupiahText(micro(amount), language)
  return {
    time: (at: number | undefined) => time.format(at),
    count: (count: number | undefined) => (count ?? 0).toLocaleString(locale),
    name: ({ display_name: name, model }: Change) => (name === model ? name : `${name} (${model})`),
    target: ({ target, target_name: name }: Change) =>
      name === null || name === undefined || name === target ? target : `${name} (${target})`,
    size: (amount: number) => rupiah(BigInt(Math.abs(amount))),
    /** Micro-rupiah for one token are rupiah for a million. */
    rates: ({ from = [], to = [] }: Change, names: readonly string[]) =>
      names.flatMap((name, place) => {
        const [was, is] = [from[place], to[place]]
        if (was === undefined || is === undefined || is === null || was === is) return []
        return [`${name} ${rupiah(BigInt(was) * MICRO_PER_RUPIAH)} → ${rupiah(BigInt(is) * MICRO_PER_RUPIAH)}`]
      }),
  }
}

const lines = (...parts: readonly (string | undefined)[]) => parts.filter((part) => part !== undefined).join("\n  ")

const RATES_ID = ["masukan", "keluaran", "baca cache", "tulis cache"]
const RATES_EN = ["input", "output", "cache read", "cache write"]

const indonesian = (write: ReturnType<typeof written>) => ({
  rates: (change: Change) => {
    const rates = write.rates(change, RATES_ID)
    return rates.length === 0 ? undefined : `Harga per satu juta token: ${rates.join(", ")}.`
  },
  effect: (of: string, { calls, difference_micro: micro }: Change) =>
    micro === undefined || micro === null
      ? undefined
      : `Dengan harga ${of}, pemakaian 30 hari terakhir Anda (${write.count(calls)} panggilan) ${
          micro === 0 ? "tidak berubah" : `${write.size(micro)} ${micro > 0 ? "lebih mahal" : "lebih murah"}`
        }.`,
})

const english = (write: ReturnType<typeof written>) => ({
  rates: (change: Change) => {
    const rates = write.rates(change, RATES_EN)
    return rates.length === 0 ? undefined : `Price of a million tokens: ${rates.join(", ")}.`
  },
  effect: (of: string, { calls, difference_micro: micro }: Change) =>
    micro === undefined || micro === null
      ? undefined
      : `At ${of} price, your last 30 days (${write.count(calls)} ${calls === 1 ? "call" : "calls"}) would have cost ${
          micro === 0 ? "the same" : `${write.size(micro)} ${micro > 0 ? "more" : "less"}`
        }.`,
})

const texts: Readonly<Record<Language, Texts>> = {
  id: {
    hello: "Halo",
    more: (count) => `dan ${count} model lagi, yang ada di halaman Model di dasbor Loket.`,
    kinds: {
      "price.announced": (count, first, write) => ({
        subject:
          count === 1
            ? `Harga ${first.display_name} di Loket akan berubah`
            : `Harga ${count} model yang Anda pakai di Loket akan berubah`,
        intro: "Harga model yang Anda pakai dalam 30 hari terakhir akan berubah:",
        item: (change) =>
          lines(
            `${write.name(change)}, mulai ${write.time(change.begins_at_ms)}`,
            indonesian(write).rates(change),
            indonesian(write).effect("baru", change),
          ),
        end: `Panggilan yang dimulai sebelum waktu itu tetap ditagih dengan harga sekarang. Kalau perubahan ini dibatalkan sebelum
berlaku, Anda diberi tahu lewat e-mail.`,
      }),
      "price.retracted": (count, first, write) => ({
        subject:
          count === 1
            ? `Perubahan harga ${first.display_name} di Loket dibatalkan`
            : `Perubahan harga ${count} model di Loket dibatalkan`,
        intro: "Perubahan harga yang kami umumkan kepada Anda tidak jadi berlaku:",
        item: (change) => `${write.name(change)}, yang akan mulai ${write.time(change.begins_at_ms)}`,
        end: "Harga sekarang tetap berlaku. Kalau ada harga lain, Anda diberi tahu tersendiri.",
      }),
      "model.retired": (count, first, write) => ({
        subject:
          count === 1
            ? `${first.display_name} tidak lagi dijual di Loket`
            : `${count} model yang Anda pakai tidak lagi dijual di Loket`,
        intro: "Model yang Anda pakai dalam 30 hari terakhir tidak lagi dijual:",
        item: (change) =>
          lines(
            write.name(change),
            `Permintaan ke model ini sekarang dijawab dan ditagih sebagai ${write.target(change)}, sampai ${write.time(change.until_ms)}; sesudahnya ditolak.`,
            indonesian(write).rates(change),
            indonesian(write).effect("penggantinya", change),
          ),
        end: "Ganti nama model di aplikasi Anda sebelum waktu itu.",
      }),
      "model.restored": (count, first, write) => ({
        subject: count === 1 ? `${first.display_name} dijual lagi di Loket` : `${count} model dijual lagi di Loket`,
        intro: "Model yang kami umumkan tidak lagi dijual, sekarang dijual lagi:",
        item: (change) => write.name(change),
        end: "Permintaan ke model ini dijawab dan ditagih dengan harganya sendiri.",
      }),
    },
  },
  en: {
    hello: "Hello",
    more: (count) =>
      `and ${count} more ${count === 1 ? "model" : "models"}, on the Models page of the Loket dashboard.`,
    kinds: {
      "price.announced": (count, first, write) => ({
        subject:
          count === 1
            ? `The price of ${first.display_name} at Loket is going to change`
            : `The prices of ${count} models that you use at Loket are going to change`,
        intro: "Prices of models that you used in the last 30 days are going to change:",
        item: (change) =>
          lines(
            `${write.name(change)}, from ${write.time(change.begins_at_ms)}`,
            english(write).rates(change),
            english(write).effect("the new", change),
          ),
        end: `Calls that begin before then pay the present price. Should a change be taken back before it holds, you are told by
mail.`,
      }),
      "price.retracted": (count, first, write) => ({
        subject:
          count === 1
            ? `The price of ${first.display_name} at Loket does not change after all`
            : `The prices of ${count} models at Loket do not change after all`,
        intro: "Changes of prices that we announced to you have been taken back:",
        item: (change) => `${write.name(change)}, which was to begin ${write.time(change.begins_at_ms)}`,
        end: "The present price stays. Another price, if there is to be one, is announced by itself.",
      }),
      "model.retired": (count, first, write) => ({
        subject:
          count === 1
            ? `${first.display_name} is no longer sold at Loket`
            : `${count} models that you use are no longer sold at Loket`,
        intro: "Models that you used in the last 30 days are no longer sold:",
        item: (change) =>
          lines(
            write.name(change),
            `Requests for it are now answered and charged as ${write.target(change)}, until ${write.time(change.until_ms)}, and refused from then on.`,
            english(write).rates(change),
            english(write).effect("its successor's", change),
          ),
        end: "Change the model's name in your application before then.",
      }),
      "model.restored": (count, first, write) => ({
        subject:
          count === 1 ? `${first.display_name} is sold again at Loket` : `${count} models are sold again at Loket`,
        intro: "Models that we announced as no longer sold are sold again:",
        item: (change) => write.name(change),
        end: "Requests for them are answered, and charged at their own price.",
      }),
    },
  },
}

/** Announces prices and retirements to who used the models, a batch of accounts at a time. Milliseconds. */
const ACCOUNTS = 200
const FEWER = 5
/** Of one look; the next one goes on from there. */
const LOOK_MS = 20_000

export class Announcements {
  readonly #store: AnnouncementStore
  readonly #sendsMail: boolean
  #stopped = false
  /** Fewer where accounts have so much usage that a batch takes too long. */
  #accounts = ACCOUNTS

  constructor(store: AnnouncementStore, sendsMail: boolean) {
    this.#store = store
    this.#sendsMail = sendsMail
  }

  /** Finds what is to be announced, and writes the mails of some accounts. */
  async look(): Promise<void> {
    // Without a mail server nothing is written that nobody would send.
    if (!this.#sendsMail) return
    const until = performance.now() + LOOK_MS
    const isOver = () => this.#stopped || performance.now() > until
    await this.#store.look()
    // Those who were told something that is no longer true come first.
    while (!isOver() && (await this.#store.takeBackNext(ACCOUNTS)));
    while (!isOver() && (await this.#tellNext()));
  }

  stop(): void {
    this.#stopped = true
  }

  async #tellNext(): Promise<boolean> {
    try {
      const goesOn = await this.#store.tellNext(this.#accounts)
      this.#accounts = Math.min(ACCOUNTS, this.#accounts * FEWER)
      return goesOn
    } catch (error) {
      if (!(error instanceof DatabaseUnavailable) || this.#accounts === 1) throw error
      this.#accounts = Math.max(1, Math.floor(this.#accounts / FEWER))
      return true
    }
  }
}
