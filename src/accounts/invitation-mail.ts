/** What the mail of an invitation says: in both languages, because nobody knows which one its reader speaks. */
import type { Language } from "../store/account-settings.ts"
import type { InvitationOfMail } from "../store/mail-kinds.ts"
import type { MemberRole } from "../store/member-roles.ts"

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

/** In the language of the account that invites first. */
export function invitationMail(
  { from, role }: InvitationOfMail,
  language: Language,
  link: string,
): { readonly subject: string; readonly text: string } {
  const order: readonly Language[] = language === "id" ? ["id", "en"] : ["en", "id"]
  const text = order.map((each) => bodies[each](from, roleNames[each][role], link)).join("\n\n—\n\n")
  return { subject: subjects[language](from), text: `${text}\n` }
}
