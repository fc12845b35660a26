import { texts } from "../../../i18n/language.tsx"

export const useProblemsText = texts({
  id: {
    title: "Masalah pembayaran",
    intro:
      "Pembayaran yang masuk tetapi tidak dapat dikreditkan. Tidak ada uang yang bergerak sampai Anda menanganinya, misalnya dengan penyesuaian saldo.",
    all: "Tampilkan juga yang sudah selesai",
    none: "Tidak ada masalah pembayaran",
    noneHint: "Semua pembayaran yang masuk sudah dikreditkan.",
    kinds: {
      unknown_order: "Pesanan tak dikenal",
      wrong_amount: "Jumlah salah",
      mismatch: "Tidak cocok dengan penyedia",
    },
    columns: {
      reference: "Rujukan",
      kind: "Masalah",
      paid: "Menurut penyedia",
      account: "Milik",
      seen: "Terakhir diberitahukan",
      resolution: "Penyelesaian",
    },
    topUp: "Isi saldo",
    toAccount: "Buka akun",
    nobody: "tidak diketahui",
    resolve: "Selesaikan",
    resolveTitle: (reference: string) => `Selesaikan ${reference}?`,
    resolveText:
      "Masalah ini dikeluarkan dari daftar dan catatan Anda tersimpan di log audit. Ini tidak mengkreditkan apa pun: sesuaikan saldo akunnya lebih dulu bila perlu.",
    note: "Apa yang sudah dilakukan",
    resolveAct: "Tandai selesai",
    resolveDone: "Masalah ditandai selesai.",
    resolved: (time: string) => `Selesai ${time}`,
  },
  en: {
    title: "Payment problems",
    intro:
      "Payments that came and could not be credited. No money moves until you see to it, such as by adjusting a balance.",
    all: "Show resolved ones too",
    none: "No payment problems",
    noneHint: "Every payment that came has been credited.",
    kinds: {
      unknown_order: "Unknown order",
      wrong_amount: "Wrong amount",
      mismatch: "Not as the provider has it",
    },
    columns: {
      reference: "Reference",
      kind: "Problem",
      paid: "As the provider says",
      account: "Whose",
      seen: "Last told",
      resolution: "Resolution",
    },
    topUp: "Top-up",
    toAccount: "Open account",
    nobody: "not known",
    resolve: "Resolve",
    resolveTitle: (reference: string) => `Resolve ${reference}?`,
    resolveText:
      "The problem leaves the list, and your note is kept in the audit log. This credits nothing: adjust the account's balance first where it is due.",
    note: "What was done",
    resolveAct: "Mark as resolved",
    resolveDone: "The problem is resolved.",
    resolved: (time: string) => `Resolved ${time}`,
  },
})
