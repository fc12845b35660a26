import { texts } from "../../i18n/language.tsx"

export const useSignUpText = texts({
  id: {
    title: "Buat akun",
    intro: "Tanpa langganan. Isi saldo mulai Rp 10.000, saldo tidak pernah hangus.",
    email: "Alamat e-mail",
    password: "Kata sandi",
    passwordHint:
      "Paling sedikit 10 karakter. Beberapa kata yang mudah Anda ingat lebih kuat daripada satu kata rumit.",
    passwordShort: "Kata sandi harus 10 sampai 256 karakter.",
    submit: "Daftar",
    haveAccount: "Sudah punya akun?",
    signIn: "Masuk",
  },
  en: {
    title: "Create an account",
    intro: "No subscription. Top up from Rp 10,000; your balance never expires.",
    email: "E-mail address",
    password: "Password",
    passwordHint: "At least 10 characters. A few words that you remember are stronger than one that is hard to type.",
    passwordShort: "The password must have 10 to 256 characters.",
    submit: "Sign up",
    haveAccount: "Already have an account?",
    signIn: "Sign in",
  },
})
