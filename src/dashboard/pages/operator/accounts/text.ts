import { texts } from "../../../i18n/language.tsx"

export const useAccountsText = texts({
  id: {
    title: "Akun",
    intro: "Semua akun, yang terbaru lebih dulu.",
    search: "Cari akun",
    searchHint: "Bagian dari alamat email, atau awal ID akun, ID kunci, atau kunci (13 karakter pertama cukup).",
    none: "Tidak ada akun yang cocok",
    noneHint: "Periksa ejaannya, atau cari dengan awal ID.",
    columns: {
      email: "Email",
      balance: "Saldo",
      held: "Ditahan",
      keys: "Kunci",
      state: "Keadaan",
      created: "Dibuat",
    },
    active: "Aktif",
    frozen: "Dibekukan",
    deleted: "Dihapus",
    operator: "Operator",
  },
  en: {
    title: "Accounts",
    intro: "Every account, the newest first.",
    search: "Search accounts",
    searchHint:
      "Part of an e-mail address, or the beginning of an account's ID, a key's ID or a key (13 characters are enough).",
    none: "No account matches",
    noneHint: "Check the spelling, or search by the beginning of an ID.",
    columns: {
      email: "E-mail",
      balance: "Balance",
      held: "Held",
      keys: "Keys",
      state: "State",
      created: "Created",
    },
    active: "Active",
    frozen: "Frozen",
    deleted: "Deleted",
    operator: "Operator",
  },
})
