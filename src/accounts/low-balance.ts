/**
 * Writes to people whose balance has fallen below what they set: one mail at most for each fall, even where that means none,
 * as when a process or a connection dies in the middle of it.
 */
import type { Micro } from "../../actors/money/micro.ts"
import { MICRO_PER_RUPIAH } from "../../actors/money/micro.ts"
import type { Log } from "../log.ts"
import { type Mail, type Mailer, smtpMailer } from "../mail/mailer.ts"
import type { Language } from "../store/account-settings.ts"
import type { Database } from "../store/database.ts"
import { type LowBalance, lowBalanceStore, type LowBalanceStore } from "../store/low-balance.ts"

export interface LowBalanceParts {
  readonly store: LowBalanceStore
  readonly mailer: Mailer
  /** A mail that was not sent; `again` is whether it is tried again at the next look. */
  readonly failed: (accountId: string, again: boolean) => void
}

export interface LowBalanceTerms {
  readonly smtpUrl: string | undefined
  readonly from: string | undefined
  readonly database: Database
  readonly log: Log
}

/** Sends the mails that are due; without a mail server, none. */
export function lowBalanceTeller({ smtpUrl, from, database, log }: LowBalanceTerms): () => Promise<void> {
  if (smtpUrl === undefined || from === undefined) return async () => {}
  const store = lowBalanceStore(database)
  const mailer = smtpMailer({ url: smtpUrl, from })
  const failed = (accountId: string, again: boolean) => log.warn("mail not sent", { account_id: accountId, again })
  return () => tellLowBalances({ store, mailer, failed })
}

export async function tellLowBalances({ store, mailer, failed }: LowBalanceParts): Promise<void> {
  for (const low of await store.take()) {
    const delivery = await mailer.send(lowBalanceMail(low))
    if (delivery === "sent") continue
    const again = delivery === "later"
    if (again) await store.putBack(low.accountId)
    failed(low.accountId, again)
  }
}

const texts: Readonly<Record<Language, (balance: string, threshold: string) => Omit<Mail, "to">>> = {
  id: (balance, threshold) => ({
    subject: `Saldo Loket Anda tinggal ${balance}`,
    text: `Halo,

Saldo akun Loket Anda tinggal ${balance}, di bawah batas ${threshold} yang Anda tetapkan.
Isi ulang di dasbor Loket agar permintaan Anda tidak ditolak karena saldo kurang.

Surel ini dikirim sekali setiap kali saldo turun di bawah batas. Batas dan alamat surel dapat diubah di pengaturan akun.
`,
  }),
  en: (balance, threshold) => ({
    subject: `Your Loket balance is down to ${balance}`,
    text: `Hello,

The balance of your Loket account is down to ${balance}, below the ${threshold} that you set.
Top it up in the Loket dashboard, so that your requests are not refused for want of balance.

This mail is sent once each time the balance falls below what you set. You can change that, and the address, in your
account's settings.
`,
  }),
}

const lowBalanceMail = ({ email, language, balanceMicro, thresholdMicro }: LowBalance): Mail => ({
  to: email,
  ...texts[language](rupiah(balanceMicro), rupiah(thresholdMicro)),
})

/** Whole rupiah, rounded down: a mail never names more than there is. */
const rupiah = (amount: Micro): string => `Rp ${(amount / MICRO_PER_RUPIAH).toLocaleString("id-ID")}`
