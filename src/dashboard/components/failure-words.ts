/**
 * Error codes in Indonesian. The server's English message is shown below these words, because it may say more: which value was
 * refused, how long a prompt was. Errors inside a stream have codes of their own.
 */
import type { FailureCode, StreamCode } from "../../failure/table.ts"

const indonesian: Readonly<Record<FailureCode | StreamCode, string>> = {
  "request.invalid": "Permintaan tidak sah.",
  "request.invalid_request": "Bentuk permintaan tidak sesuai.",
  "request.unsupported_feature": "Fitur ini tidak tersedia untuk model dan alamat ini.",
  "request.method_not_allowed": "Metode ini tidak berlaku di alamat ini.",
  "request.too_large": "Permintaan terlalu besar.",
  "model.unknown": "Model tidak ada di katalog.",
  "run.unknown": "Run dengan X-Run-Id ini tidak ada, dan anggaran untuk membuatnya tidak dikirim.",
  "run.budget_mismatch": "Run ini dibuat dengan anggaran lain.",
  "upstream.context_length_exceeded": "Prompt lebih panjang daripada konteks model.",
  "upstream.invalid_request": "Penyedia model menolak permintaan.",
  "upstream.unsupported_feature": "Penyedia model tidak mendukung parameter atau fitur ini.",
  "upstream.rate_limited": "Penyedia model sedang membatasi permintaan. Coba lagi sebentar.",
  "auth.api_key_missing": "Kunci API tidak dikirim.",
  "auth.api_key_invalid": "Kunci API tidak dikenal.",
  "auth.api_key_revoked": "Kunci API sudah dicabut.",
  "auth.api_key_expired": "Masa berlaku kunci API sudah habis.",
  "auth.unauthorized": "Sesi Anda sudah berakhir. Masuk lagi.",
  "auth.account_deleted": "Akun pemilik kunci ini sudah dihapus.",
  "auth.account_frozen": "Akun dibekukan. Hubungi operator.",
  "auth.management_token": "Token pengelola tidak bisa dipakai untuk permintaan.",
  "auth.management_token_required": "Ini memerlukan token pengelola.",
  "auth.management_token_invalid": "Token pengelola tidak ada atau tidak dikenali.",
  "auth.key_not_allowed": "Kunci ini tidak diizinkan untuk itu.",
  "auth.forbidden": "Akses ditolak.",
  "auth.role_required": "Peran Anda di akun ini tidak mengizinkannya.",
  "auth.membership_ended": "Anda bukan lagi anggota akun ini.",
  "auth.other_account": "Sesi ini sekarang menampilkan akun lain. Muat ulang halaman.",
  "auth.read_only": "Anda sedang melihat akun ini sebagai pelanggannya, jadi tidak ada yang dapat diubah.",
  "auth.second_factor_required": "Operator memerlukan verifikasi dua langkah.",
  "billing.insufficient_balance": "Saldo tidak cukup untuk permintaan ini. Tidak ada yang dipotong.",
  "billing.reconcile_failed": "Panggilan tidak dapat dibukukan, jadi saldo tidak dipotong.",
  "idempotency.in_progress": "Perubahan ini sedang diproses. Tunggu sebentar.",
  "idempotency.finished":
    "Perubahan ini sudah dilakukan sebelumnya dan tidak diulang. Muat ulang untuk melihat hasilnya.",
  "idempotency.mismatch":
    "Perubahan ini tidak sama dengan yang dikirim sebelumnya. Muat ulang halaman, lalu coba lagi.",
  "route.not_found": "Tidak ada apa-apa di alamat ini.",
  "resource.not_found": "Data ini tidak ada.",
  "usage.not_found": "Belum ada catatan pemakaian dengan ID ini.",
  "rate_limit.rpm_exceeded": "Batas permintaan per menit kunci ini tercapai.",
  "rate_limit.sign_up": "Terlalu banyak akun dibuat dari jaringan ini. Coba lagi nanti.",
  "rate_limit.mail": "Terlalu banyak e-mail diminta. Coba lagi nanti.",
  "rate_limit.export": "Data akun ini terlalu sering diekspor. Coba lagi nanti.",
  "rate_limit.documents": "Terlalu banyak kuitansi dan mutasi diminta. Coba lagi nanti.",
  "rate_limit.tpm_exceeded": "Batas token per menit kunci ini tercapai.",
  "quota.key_paused": "Kunci ini dijeda: pengeluaran dalam 10 menit mencapai batas yang ditetapkan pemiliknya.",
  "quota.key_limit_exceeded": "Batas pengeluaran kunci ini tercapai.",
  "quota.run_limit_exceeded": "Anggaran run ini sudah habis, atau run sudah berakhir. Tidak ada yang dipotong.",
  "quota.runs_exceeded": "Akun sudah memiliki run sebanyak yang diizinkan.",
  "gateway.capacity": "Server sedang penuh. Coba lagi sebentar.",
  "internal.error": "Terjadi kesalahan yang tidak terduga.",
  "internal.panic": "Terjadi kesalahan yang tidak terduga; sudah tercatat.",
  "dependency.upstream_unavailable": "Penyedia model sedang tidak tersedia.",
  "dependency.database_unavailable": "Basis data sedang tidak dapat dihubungi.",
  "dependency.upstream_unconfigured": "Model ini belum tersambung ke penyedianya.",
  upstream_unavailable: "Penyedia model terputus atau tidak tersedia.",
  upstream_capacity: "Model sedang penuh. Coba lagi sebentar.",
  upstream_timeout: "Model terlalu lama tidak menjawab.",
  context_length_exceeded: "Prompt lebih panjang daripada konteks model.",
  rate_limited: "Permintaan sedang dibatasi. Coba lagi sebentar.",
  invalid_request: "Permintaan tidak sah.",
  unsupported_feature: "Fitur ini tidak tersedia untuk model ini.",
  internal: "Terjadi kesalahan yang tidak terduga.",
}

const isKnown = (code: string): code is keyof typeof indonesian => Object.hasOwn(indonesian, code)

/** Undefined for a code that is newer than this page. */
export const indonesianFor = (code: string): string | undefined => (isKnown(code) ? indonesian[code] : undefined)
