import { texts } from "../../../i18n/language.tsx"

export const useTopUpsText = texts({
  id: {
    title: "Isi saldo",
    intro: "Isi saldo semua akun, yang terbaru lebih dulu. Pembayaran yang tidak cocok ada di Masalah pembayaran.",
    status: "Status",
    any: "Semua",
    statuses: { pending: "Menunggu", paid: "Dibayar", expired: "Kedaluwarsa" },
    paidAt: (time: string) => `Dibayar ${time}`,
    none: "Tidak ada isi saldo seperti ini",
    columns: {
      id: "Isi saldo",
      account: "Akun",
      status: "Status",
      credited: "Saldo",
      paid: "Yang harus dibayar",
      created: "Dibuat",
    },
  },
  en: {
    title: "Top-ups",
    intro: "Top-ups of every account, the newest first. Payments that do not match are under Payment problems.",
    status: "Status",
    any: "All",
    statuses: { pending: "Pending", paid: "Paid", expired: "Expired" },
    paidAt: (time: string) => `Paid ${time}`,
    none: "No top-ups like this",
    columns: {
      id: "Top-up",
      account: "Account",
      status: "Status",
      credited: "Balance",
      paid: "To pay",
      created: "Created",
    },
  },
})
