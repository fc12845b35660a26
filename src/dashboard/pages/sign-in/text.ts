import { texts } from "../../i18n/language.tsx"

export const useSignInText = texts({
  id: {
    title: "Masuk",
    intro: "Satu saldo Rupiah untuk semua model AI.",
    email: "Alamat e-mail",
    password: "Kata sandi",
    submit: "Masuk",
    noAccount: "Belum punya akun?",
    signUp: "Daftar",
    wrong: "Alamat e-mail atau kata sandi salah.",
    tooMany: (seconds: string) => `Terlalu banyak percobaan yang gagal. Coba lagi dalam ${seconds} detik.`,
    slow: "Karena ada percobaan yang gagal sebelumnya, ini memerlukan beberapa detik.",
  },
  en: {
    title: "Sign in",
    intro: "One Rupiah balance for every AI model.",
    email: "E-mail address",
    password: "Password",
    submit: "Sign in",
    noAccount: "No account yet?",
    signUp: "Sign up",
    wrong: "The e-mail address or the password is wrong.",
    tooMany: (seconds: string) => `Too many failed attempts. Try again in ${seconds} seconds.`,
    slow: "Because of failed attempts before, this takes a few seconds.",
  },
})
