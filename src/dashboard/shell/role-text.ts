/** What a member's role is called, and what it is for. */
import { texts } from "../i18n/language.tsx"

export const useRoleText = texts({
  id: {
    roles: { owner: "Pemilik", billing: "Keuangan", developer: "Pengembang", viewer: "Pengamat" },
    roleHints: {
      owner: "Semuanya, juga anggota dan riwayat akun.",
      billing: "Isi saldo, mutasi, kuitansi, dan peringatan; melihat pemakaian.",
      developer: "Kunci API, ruang coba, run, batas sepuluh menit, dan webhook; tanpa uang.",
      viewer: "Melihat saja.",
    },
    looking: (email: string, role: string) => `Anda melihat akun ${email} sebagai ${role}.`,
    seeing: (email: string, operator: string, until: string) =>
      `Operator ${operator} melihat akun ${email} sebagai pelanggannya, hanya baca, sampai ${until}.`,
    endSeeing: "Akhiri",
    back: "Kembali ke akun sendiri",
    accounts: "Ganti akun",
    own: "Akun sendiri",
    roleNeeded: "Peran Anda tidak mencakup halaman ini",
    roleNeededHint: (role: string) => `Peran Anda di akun ini: ${role}. Pemilik akun dapat mengubahnya.`,
  },
  en: {
    roles: { owner: "Owner", billing: "Billing", developer: "Developer", viewer: "Viewer" },
    roleHints: {
      owner: "Everything, members and the account's history too.",
      billing: "Top-ups, statements, receipts and alerts; sees the usage.",
      developer: "API keys, playground, runs, limits of ten minutes and the webhook; no money.",
      viewer: "Looking only.",
    },
    looking: (email: string, role: string) => `You are looking at the account ${email} as ${role}.`,
    seeing: (email: string, operator: string, until: string) =>
      `Operator ${operator} sees the account ${email} as its customer does, read only, until ${until}.`,
    endSeeing: "End",
    back: "Back to your own account",
    accounts: "Switch account",
    own: "Your own account",
    roleNeeded: "Your role does not include this page",
    roleNeededHint: (role: string) => `Your role in this account: ${role}. An owner of it can change that.`,
  },
})
