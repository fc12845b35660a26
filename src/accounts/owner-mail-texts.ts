/** What mails to owners say. A link's mail has the link, the others the address of the dashboard. */
import type { Language, OwnMailKind } from "../store/account-settings.ts"

interface Text {
  readonly subject: string
  /** Paragraphs; the link stands by itself after the first. */
  readonly text: readonly [string, ...string[]]
}

const texts: Readonly<Record<Language, Readonly<Record<OwnMailKind, Text>>>> = {
  id: {
    prove: {
      subject: "Konfirmasi alamat e-mail Anda di Loket",
      text: [
        "Buka tautan ini untuk mengonfirmasi bahwa alamat ini milik Anda:",
        "Tautan ini berlaku 24 jam dan hanya dapat dipakai sekali.",
        "Anda tidak mendaftar di Loket? Abaikan e-mail ini, dan jangan buka tautannya.",
      ],
    },
    change: {
      subject: "Konfirmasi alamat e-mail baru Anda di Loket",
      text: [
        "Buka tautan ini untuk menjadikan alamat ini alamat akun Loket Anda:",
        "Sampai tautan dibuka, alamat yang lama tetap berlaku. Tautan ini berlaku 24 jam dan hanya dapat dipakai sekali.",
        "Anda tidak memintanya? Abaikan e-mail ini, dan jangan buka tautannya.",
      ],
    },
    reset: {
      subject: "Buat kata sandi baru untuk akun Loket Anda",
      text: [
        "Buka tautan ini untuk membuat kata sandi baru:",
        "Tautan ini berlaku 30 menit dan hanya dapat dipakai sekali. Semua perangkat yang sedang masuk akan dikeluarkan.",
        "Anda tidak memintanya? Abaikan e-mail ini; kata sandi Anda tidak berubah.",
      ],
    },
    "password-changed": {
      subject: "Kata sandi akun Loket Anda telah diganti",
      text: [
        "Kata sandi akun Loket Anda baru saja diganti, dan semua sesi lain telah diakhiri.",
        "Bukan Anda? Segera buat kata sandi baru lewat “Lupa kata sandi?” di halaman masuk, lalu periksa kunci API Anda.",
      ],
    },
    "password-reset": {
      subject: "Kata sandi baru untuk akun Loket Anda",
      text: [
        "Kata sandi baru telah dibuat untuk akun Loket Anda lewat tautan di e-mail, dan semua sesi telah diakhiri.",
        "Bukan Anda? Orang lain dapat membaca e-mail Anda: amankan dahulu e-mail Anda, lalu buat lagi kata sandi baru.",
      ],
    },
    "email-changed": {
      subject: "Alamat e-mail akun Loket Anda telah diganti",
      text: [
        "Akun Loket Anda sekarang memakai alamat e-mail lain. Alamat ini tidak dapat lagi dipakai untuk masuk.",
        "Bukan Anda? Segera hubungi pengelola layanan ini.",
      ],
    },
    "factor-on": {
      subject: "Verifikasi dua langkah aktif di akun Loket Anda",
      text: [
        "Mulai sekarang, masuk ke akun Loket Anda memerlukan kode dari aplikasi autentikator. Semua sesi lain telah diakhiri.",
        "Bukan Anda? Segera hubungi pengelola layanan ini.",
      ],
    },
    "factor-off": {
      subject: "Verifikasi dua langkah dimatikan di akun Loket Anda",
      text: [
        "Masuk ke akun Loket Anda sekarang hanya memerlukan kata sandi. Semua sesi lain telah diakhiri.",
        "Bukan Anda? Segera buat kata sandi baru lewat “Lupa kata sandi?” di halaman masuk, lalu aktifkan lagi verifikasi dua langkah.",
      ],
    },
    "app-removed": {
      subject: "Aplikasi autentikator dihapus dari akun Loket Anda",
      text: [
        "Masuk ke akun Loket Anda tidak lagi menerima kode dari aplikasi autentikator; passkey Anda tetap berlaku. Semua sesi lain telah diakhiri.",
        "Bukan Anda? Segera buat kata sandi baru lewat “Lupa kata sandi?” di halaman masuk, lalu periksa passkey dan sesi Anda.",
      ],
    },
    "passkey-added": {
      subject: "Passkey baru di akun Loket Anda",
      text: [
        "Sebuah passkey baru saja ditambahkan ke akun Loket Anda. Siapa pun yang memegangnya dapat masuk tanpa kata sandi.",
        "Bukan Anda? Segera hapus passkey itu di halaman pengaturan, buat kata sandi baru, dan hubungi pengelola layanan ini.",
      ],
    },
    "passkey-removed": {
      subject: "Sebuah passkey dihapus dari akun Loket Anda",
      text: [
        "Sebuah passkey baru saja dihapus dari akun Loket Anda, dan tidak dapat lagi dipakai untuk masuk.",
        "Bukan Anda? Segera buat kata sandi baru lewat “Lupa kata sandi?” di halaman masuk, lalu periksa passkey dan sesi Anda.",
      ],
    },
    "codes-renewed": {
      subject: "Kode pemulihan baru untuk akun Loket Anda",
      text: [
        "Kode pemulihan baru telah dibuat untuk akun Loket Anda; kode yang lama tidak berlaku lagi.",
        "Bukan Anda? Segera ganti kata sandi Anda, lalu buat kode pemulihan baru.",
      ],
    },
    "code-used": {
      subject: "Sebuah kode pemulihan akun Loket Anda telah dipakai",
      text: [
        "Sebuah kode pemulihan akun Loket Anda baru saja dipakai, dan tidak berlaku lagi.",
        "Bukan Anda? Segera ganti kata sandi Anda, lalu buat kode pemulihan baru.",
      ],
    },
    "member-joined": {
      subject: "Anggota baru di akun Loket Anda",
      text: [
        "Seseorang menerima undangan ke akun Loket Anda. Siapa, dan dengan peran apa, terlihat di Pengaturan, bagian Anggota.",
        "Bukan Anda yang mengundang? Keluarkan anggota itu, lalu lihat riwayat akun: siapa yang mengundangnya.",
      ],
    },
    "member-raised": {
      subject: "Seorang anggota akun Loket Anda mendapat peran yang lebih luas",
      text: [
        "Peran seorang anggota akun Loket Anda baru saja diubah, dan kini mengizinkan lebih banyak. Lihat Pengaturan, bagian Anggota.",
        "Bukan Anda? Ubah kembali perannya, lalu lihat riwayat akun: siapa yang mengubahnya.",
      ],
    },
  },
  en: {
    prove: {
      subject: "Confirm your e-mail address for Loket",
      text: [
        "Open this link to confirm that this address is yours:",
        "The link works for 24 hours, and once.",
        "You did not sign up for Loket? Ignore this mail, and do not open the link.",
      ],
    },
    change: {
      subject: "Confirm your new e-mail address for Loket",
      text: [
        "Open this link to make this the address of your Loket account:",
        "Until you do, the old address stays. The link works for 24 hours, and once.",
        "You did not ask for this? Ignore this mail, and do not open the link.",
      ],
    },
    reset: {
      subject: "Set a new password for your Loket account",
      text: [
        "Open this link to set a new password:",
        "The link works for 30 minutes, and once. Every device that is signed in will be signed out.",
        "You did not ask for this? Ignore this mail; your password stays as it is.",
      ],
    },
    "password-changed": {
      subject: "The password of your Loket account was changed",
      text: [
        "The password of your Loket account was changed just now, and all other sessions have ended.",
        "It was not you? Set a new password at once by “Forgot your password?” on the sign-in page, and look at your API keys.",
      ],
    },
    "password-reset": {
      subject: "A new password for your Loket account",
      text: [
        "A new password was set for your Loket account by a link in a mail, and all sessions have ended.",
        "It was not you? Somebody else can read your mail: secure your mailbox first, and then set a new password again.",
      ],
    },
    "email-changed": {
      subject: "The e-mail address of your Loket account was changed",
      text: [
        "Your Loket account has another e-mail address now. This one can no longer be used to sign in.",
        "It was not you? Contact whoever runs this service at once.",
      ],
    },
    "factor-on": {
      subject: "Two-step verification is on for your Loket account",
      text: [
        "From now on, signing in to your Loket account takes a code of an authenticator app. All other sessions have ended.",
        "It was not you? Contact whoever runs this service at once.",
      ],
    },
    "factor-off": {
      subject: "Two-step verification is off for your Loket account",
      text: [
        "Signing in to your Loket account now takes the password alone. All other sessions have ended.",
        "It was not you? Set a new password at once by “Forgot your password?” on the sign-in page, and turn two-step verification on again.",
      ],
    },
    "app-removed": {
      subject: "The authenticator app was removed from your Loket account",
      text: [
        "Signing in to your Loket account takes no codes of an authenticator app any more; your passkeys stay. All other sessions have ended.",
        "It was not you? Set a new password at once by “Forgot your password?” on the sign-in page, then look at your passkeys and sessions.",
      ],
    },
    "passkey-added": {
      subject: "A new passkey for your Loket account",
      text: [
        "A passkey was just added to your Loket account. Whoever holds it can sign in without the password.",
        "It was not you? Remove it in the settings at once, set a new password, and contact whoever runs this service.",
      ],
    },
    "passkey-removed": {
      subject: "A passkey was removed from your Loket account",
      text: [
        "A passkey was just removed from your Loket account. It can no longer be used to sign in.",
        "It was not you? Set a new password at once by “Forgot your password?” on the sign-in page, then look at your passkeys and sessions.",
      ],
    },
    "codes-renewed": {
      subject: "New recovery codes for your Loket account",
      text: [
        "New recovery codes were made for your Loket account; the old ones no longer work.",
        "It was not you? Change your password at once, and make new recovery codes.",
      ],
    },
    "code-used": {
      subject: "A recovery code of your Loket account was used",
      text: [
        "A recovery code of your Loket account was used just now, and no longer works.",
        "It was not you? Change your password at once, and make new recovery codes.",
      ],
    },
    "member-joined": {
      subject: "A new member of your Loket account",
      text: [
        "Somebody accepted an invitation to your Loket account. Who it is, and with which role, is in the settings under Members.",
        "You did not invite anybody? Remove the member, and look into the account's history: it says who did.",
      ],
    },
    "member-raised": {
      subject: "A member of your Loket account got a wider role",
      text: [
        "The role of a member of your Loket account was changed just now, and allows more than before. Look at the settings under Members.",
        "It was not you? Change the role back, and look into the account's history: it says who did it.",
      ],
    },
  },
}

export function ownerMail(kind: OwnMailKind, language: Language, link: string): { subject: string; text: string } {
  const { subject, text } = texts[language][kind]
  const [first, ...rest] = text
  return { subject, text: `${[first, link, ...rest].join("\n\n")}\n` }
}
