/**
 * Mail to the owners of accounts: links that prove an address or set a new password, and news of what changed. They are rows
 * first, so that whoever asks waits for no mail server, and a chore sends them. How many may be asked for is bounded by
 * address, account and network, so that nobody is buried in mail, and as a whole.
 *
 * And what sends all mail: through an SMTP server (nodemailer), times in milliseconds.
 */
import { PassThrough } from "node:stream"
import { createTransport } from "nodemailer"
import { isLoopbackNetwork, networkOf, siteOf } from "../../actors/network.ts"
import { Failure, wholeSeconds } from "../failure/failure.ts"
import type { Log } from "../log.ts"
import { accountMailStore, type AccountMailStore } from "../store/account-mails.ts"
import {
  type DueMail,
  type InvitationOfMail,
  isLink,
  type Language,
  type LinkKind,
  type MemberRole,
} from "../store/account-settings.ts"
import type { AllowanceStore } from "../store/allowances.ts"
import type { Database } from "../store/database.ts"
import { canonical } from "./adjustments.ts"
import { createSessionToken } from "./bearer-tokens.ts"
import { ownerMail } from "./owner-mail-texts.ts"

/**
 * Mails in an hour. A network may be a whole office; loopback is not counted, as with sign-ups. Of an IPv6 /48, which has 65,536
 * networks, a few cannot use up those of the gateway. It has as many for strangers as for owners, and neither uses up the other's.
 */
export const mailLimits = { toAddress: 5, ofAccount: 5, fromNetwork: 30, fromSite: 120, ofGateway: 1_000 }
const HOUR_S = 3_600
const MAILS_A_LOOK = 10

export interface OwnerMailOptions {
  readonly store: AccountMailStore
  readonly allowances: AllowanceStore
  /** Whether mail leaves, and its links lead somewhere: with a mail server and a public address. */
  readonly isOn: boolean
  readonly log: Log
}

/** Kinds are counted apart: whoever has an address invited keeps its owner from no new password. */
interface MailRequest {
  readonly kind: LinkKind | "invitation"
  readonly to: string
  /** The address from which it is asked for. */
  readonly from: string
  /** The account that asks. */
  readonly by?: string
  /** Somebody has signed in to the address' account from there. Strangers elsewhere use up nothing of it. */
  readonly isFromHome?: boolean
}

export class OwnerMail {
  readonly #parts: OwnerMailOptions

  constructor(parts: OwnerMailOptions) {
    this.#parts = parts
  }

  get isOn(): boolean {
    return this.#parts.isOn
  }

  /** Counts a mail to an address that the caller names, or tells when there may be one; of a reset not yet what the gateway sends. */
  async admit({ kind, to, from, by, isFromHome = false }: MailRequest) {
    const network = networkOf(from)
    const site = siteOf(network)
    const { toAddress, ofAccount, fromNetwork, fromSite } = mailLimits
    return await this.count([
      ...(isLoopbackNetwork(network) ? [] : [{ name: `mail from ${network}`, most: fromNetwork }]),
      ...(isLoopbackNetwork(network) || site === network ? [] : [{ name: `mail from ${site}`, most: fromSite }]),
      ...(by === undefined ? [] : [{ name: `mail of ${by}`, most: ofAccount }]),
      { name: `mail to ${digest(to)}, ${kind}${isFromHome ? ", from home" : ""}`, most: toAddress },
      ...(kind === "reset" ? [] : [ofGateway(by !== undefined || kind === "invitation")]),
    ])
  }

  async count(limits: readonly MailLimit[]): Promise<Failure | undefined> {
    for (const limit of limits) {
      const waitS = await this.#parts.allowances.take({ ...limit, seconds: HOUR_S })
      if (waitS !== undefined) return new Failure("rate_limit.mail", { retryAfterS: wholeSeconds(waitS) })
    }
    return undefined
  }

  /** The first proof of a new account, which exists whether or not it is sent: its owner may ask again. */
  async welcome(accountId: string, email: string, from: string): Promise<void> {
    if (!this.isOn) return
    try {
      if ((await this.admit({ kind: "prove", to: email, from })) === undefined)
        await this.#parts.store.ask(accountId, "prove")
    } catch (error) {
      this.#parts.log.warn("mail not kept", { account_id: accountId, error: String(error) })
    }
  }
}

type MailLimit = Omit<Parameters<AllowanceStore["take"]>[0], "seconds">
export const ofGateway = (owners: boolean) => ({ name: owners ? "mail of owners" : "mail", most: mailLimits.ofGateway })

/** Of the person, however the address is spelt. Addresses of people who have no account are not kept. */
const digest = (email: string): string => new Bun.CryptoHasher("sha256").update(canonical(email)).digest("base64url")

export interface SenderIdentity {
  readonly smtpUrl: string | undefined
  readonly from: string | undefined
  readonly publicUrl: string | undefined
  readonly database: Database
  readonly log: Log
  /** Aborted: no further mail is begun. */
  readonly signal: AbortSignal
}

/** Sends the mails that are due; without a mail server and a public address, none. */
export function ownerMailSender(identity: SenderIdentity): () => Promise<void> {
  const { smtpUrl, from, publicUrl, database, log, signal } = identity
  if (smtpUrl === undefined || from === undefined || publicUrl === undefined) return async () => {}
  const store = accountMailStore(database)
  const mailer = smtpMailer({ url: smtpUrl, from })
  const failed = (accountId: string, again: boolean) => log.warn("mail not sent", { account_id: accountId, again })
  return () => sendOwnerMails({ store, mailer, publicUrl, failed, signal })
}

export interface SenderOptions {
  readonly store: AccountMailStore
  readonly mailer: Mailer
  readonly publicUrl: string
  readonly failed: (accountId: string, again: boolean) => void
  readonly signal?: AbortSignal
}

/** Sends what is due. A link's token is made here and goes into the mail alone; what is kept is its hash. */
export async function sendOwnerMails({ store, mailer, publicUrl, failed, signal }: SenderOptions): Promise<void> {
  for (let tried = 0; tried < MAILS_A_LOOK; tried++) {
    if (signal?.aborted === true) return
    // One at a time: what waits behind a slow server is still anybody's.
    const mail = await store.take()
    if (mail === undefined) return
    const letter = await written(mail, store, publicUrl)
    // Who was invited is not invited any more.
    const delivery = letter === undefined ? "sent" : await mailer.send(letter)
    const again = isPutBack(delivery)
    if (again) await store.putBack(mail.id)
    else await store.sent(mail.id)
    if (delivery !== "sent") failed(mail.accountId, again)
    // It is unreachable for the next mail too, and may count how often it is asked with a wrong password.
    if (delivery === "unreachable") return
  }
}

async function written(
  { id, kind, email, language, invitation }: DueMail,
  store: AccountMailStore,
  publicUrl: string,
): Promise<Mail | undefined> {
  if (kind === "invitation") {
    if (invitation === undefined) return undefined
    const { token, hash } = createSessionToken()
    await store.armInvitation(invitation.id, hash)
    return { to: email, ...invitationMail(invitation, language, dashboardLink(publicUrl, invitationPath(token))) }
  }
  if (!isLink(kind)) return { to: email, ...ownerMail(kind, language, publicUrl) }
  const { token, hash } = createSessionToken()
  await store.arm(id, kind, hash)
  return { to: email, ...ownerMail(kind, language, linkTo(publicUrl, kind, token)) }
}

/** The token is in the fragment, which no browser sends: it is in no log and no referrer. */
export const linkTo = (publicUrl: string, kind: LinkKind, token: string): string =>
  dashboardLink(publicUrl, `${kind === "reset" ? "reset-password" : "prove-email"}#${token}`)

const dashboardLink = (publicUrl: string, path: string): string => `${publicUrl.replace(/\/$/, "")}/dashboard/${path}`

/** Below the dashboard. */
export const invitationPath = (token: string): string => `join#${token}`

const roleNames: Readonly<Record<Language, Readonly<Record<MemberRole, string>>>> = {
  id: {
    owner: "pemilik (semuanya, juga anggota)",
    billing: "keuangan (isi saldo, mutasi, kuitansi)",
    developer: "pengembang (kunci API, pemakaian, run, webhook)",
    viewer: "pengamat (hanya melihat)",
  },
  en: {
    owner: "owner (everything, members too)",
    billing: "billing (top-ups, statements, receipts)",
    developer: "developer (API keys, usage, runs, webhook)",
    viewer: "viewer (looking only)",
  },
}

const subjects: Readonly<Record<Language, (from: string) => string>> = {
  id: (from) => `${from} mengundang Anda ke akun Loket`,
  en: (from) => `${from} invites you to a Loket account`,
}

const bodies: Readonly<Record<Language, (from: string, role: string, link: string) => string>> = {
  id: (from, role, link) =>
    [
      `Pemilik akun Loket ${from} mengundang Anda menjadi anggotanya, dengan peran ${role}. Buka tautan ini untuk menerimanya:`,
      link,
      "Tautan ini berlaku 7 hari dan hanya dapat dipakai sekali, oleh akun Loket dengan alamat ini. Belum punya akun? Anda dapat membuatnya di sana.",
      "Anda tidak mengenal pengundangnya? Abaikan e-mail ini.",
    ].join("\n\n"),
  en: (from, role, link) =>
    [
      `The owner of the Loket account ${from} invites you to be a member of it, in the role ${role}. Open this link to accept:`,
      link,
      "The link works for 7 days and once, for a Loket account with this address. You have none? You can make one there.",
      "You do not know who invites you? Ignore this mail.",
    ].join("\n\n"),
}

/**
 * What the mail of an invitation says: in both languages, because nobody knows which one its reader speaks. In the
 * language of the account that invites first.
 */
function invitationMail(
  { from, role }: InvitationOfMail,
  language: Language,
  link: string,
): { readonly subject: string; readonly text: string } {
  const order: readonly Language[] = language === "id" ? ["id", "en"] : ["en", "id"]
  const text = order.map((each) => bodies[each](from, roleNames[each][role], link)).join("\n\n—\n\n")
  return { subject: subjects[language](from), text: `${text}\n` }
}

export interface Mail {
  readonly to: string
  readonly subject: string
  readonly text: string
}

/**
 * `refused`: the server will not take it for this address. `later`: it did not take it now. `unreachable`: there is no server, or
 * it does not know us, so that it takes no other mail either. `unknown`: the connection was lost when it may have taken it.
 */
export type Delivery = "sent" | "refused" | "later" | "unreachable" | "unknown"

/** It was surely not sent, and may be. */
export const isPutBack = (delivery: Delivery): boolean => delivery === "later" || delivery === "unreachable"

export interface Mailer {
  /** Never throws. */
  send(mail: Mail): Promise<Delivery>
}

export interface SmtpTerms {
  /** `smtp://` (STARTTLS where offered) or `smtps://`, with user and password if need be. */
  readonly url: string
  readonly from: string
}

/** By nodemailer's names, which an operator may also put in the address's query. */
const WAITS_MS = { connectionTimeout: 10_000, greetingTimeout: 10_000, socketTimeout: 30_000 }

export function smtpMailer({ url, from }: SmtpTerms): Mailer {
  const address = new URL(url)
  for (const [name, ms] of Object.entries(WAITS_MS)) {
    if (!address.searchParams.has(name)) address.searchParams.set(name, String(ms))
  }
  return {
    async send({ to, subject, text }) {
      const transport = createTransport(address.href, { from })
      // The message is opened once the server has greeted us and knows us. Before that it can have taken nothing.
      let isOpened = false
      transport.use("stream", ({ message }, done) => {
        message.transform(() => {
          isOpened = true
          return new PassThrough()
        })
        done()
      })
      try {
        // A server that cannot be reached, or does not know us, has surely taken nothing.
        await transport.verify()
      } catch {
        return "unreachable"
      }
      try {
        // As an object, because a text would be read as a list of addresses.
        await transport.sendMail({ to: { name: "", address: to }, subject, text })
        return "sent"
      } catch (error) {
        const code = responseCode(error)
        if (code === undefined) return isOpened ? "unknown" : "unreachable"
        return code >= 500 ? "refused" : "later"
      }
    },
  }
}

/** What the server answered, if it did (RFC 5321 §4.2). */
const responseCode = (error: unknown): number | undefined =>
  error instanceof Error && "responseCode" in error && typeof error.responseCode === "number"
    ? error.responseCode
    : undefined
