/**
 * The frame of the pages that the server renders for anybody: HTML with one small style sheet in it, and no script that they need. What stands
 * in a page is escaped where it is put in, so nothing of a name, an address or a text is taken for HTML.
 */
import { assets, type Language } from "./kept.ts"

export const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;")

const words = {
  id: {
    main: "Navigasi utama",
    legal: "Ketentuan layanan ini",
    skip: "Langsung ke isi",
    prices: "Harga",
    status: "Status",
    docs: "Dokumentasi API",
    signIn: "Masuk",
    signUp: "Daftar",
    dashboard: "Buka dasbor",
    terms: "Ketentuan",
    privacy: "Privasi",
    refunds: "Pengembalian dana",
    contact: "Hubungi kami",
    other: { language: "en", name: "English" },
  },
  en: {
    main: "Main navigation",
    legal: "The terms of this service",
    skip: "Skip to the content",
    prices: "Prices",
    status: "Status",
    docs: "API reference",
    signIn: "Sign in",
    signUp: "Sign up",
    dashboard: "Open the dashboard",
    terms: "Terms",
    privacy: "Privacy",
    refunds: "Refunds",
    contact: "Contact us",
    other: { language: "id", name: "Indonesia" },
  },
} as const

export interface Framed {
  readonly language: Language
  readonly title: string
  readonly description: string
  /** Its own, as in `/status`. */
  readonly path: string
  /** HTML. */
  readonly content: string
  /** Of the page's outermost element. */
  readonly kind: string
  /** Who looks has a session. */
  readonly signedIn?: boolean
  /** Where other pages find it, as in `https://loket.example`; may be a place to put it in. */
  readonly base?: string
  readonly supportContact?: string | undefined
  /** The name of a script that makes the page better. */
  readonly script?: string
  /** HTML at its foot. */
  readonly foot?: string
}

export async function framed(page: Framed): Promise<string> {
  const { language, path, base, signedIn = false } = page
  const text = words[language]
  const { addressOf, style } = await assets()
  const at = (to: string) => `${to}?lang=${language}`
  const link = (to: string, label: string) =>
    `<a href="${at(to)}"${to === path ? ' aria-current="page"' : ""}>${label}</a>`
  const title = `${escaped(page.title)}${page.title.includes("Loket") ? "" : " · Loket"}`
  const description = escaped(page.description)
  const elsewhere =
    base === undefined
      ? ""
      : `<link rel="canonical" href="${base}${at(path)}">
<link rel="alternate" hreflang="id" href="${base}${path}?lang=id"><link rel="alternate" hreflang="en" href="${base}${path}?lang=en">
<link rel="alternate" hreflang="x-default" href="${base}${path}"><meta property="og:url" content="${base}${path}">`
  const account = signedIn
    ? `<a class="button button-primary" href="/dashboard">${text.dashboard}</a>`
    : `<a class="visitor-sign-in" href="${at("/dashboard/sign-in")}">${text.signIn}</a>
<a class="button button-primary" href="${at("/dashboard/sign-up")}">${text.signUp}</a>`
  const { other } = text
  return `<!doctype html>
<html lang="${language}"><head><meta charset="utf-8"><title>${title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<meta name="description" content="${description}"><meta property="og:title" content="${title}">
<meta property="og:description" content="${description}"><meta property="og:type" content="website">
<meta property="og:site_name" content="Loket"><meta property="og:locale" content="${language === "id" ? "id_ID" : "en_GB"}">
<meta name="theme-color" content="#f7f7f5" media="(prefers-color-scheme: light)">
<meta name="theme-color" content="#101214" media="(prefers-color-scheme: dark)">
<style>${style.text}</style><link rel="icon" href="${addressOf("icon.svg")}" type="image/svg+xml">
${elsewhere}${page.script === undefined ? "" : `<script type="module" src="${addressOf(page.script)}"></script>`}</head>
<body><div class="visitor ${page.kind}"><a class="skip-link" href="#content">${text.skip}</a>
<header class="visitor-head"><a class="brand" href="${at("/")}">${LOGO}Loket</a>
<nav class="visitor-links" aria-label="${text.main}"><a href="${at("/")}#models">${text.prices}</a>${link("/status", text.status)}${link("/docs", text.docs)}</nav>
<div class="visitor-account">${account}</div></header>
<main id="content" tabindex="-1">${page.content}</main>
<footer class="visitor-foot"><nav class="visitor-links" aria-label="${text.legal}">${(["terms", "privacy", "refunds"] as const).map((topic) => link(`/${topic}`, text[topic])).join("")}${contactLink(page.supportContact, text.contact)}</nav>
<div class="visitor-links">${page.foot ?? ""}<a href="${path}?lang=${other.language}" hreflang="${other.language}" lang="${other.language}">${other.name}</a></div></footer>
</div></body></html>
`
}

function contactLink(contact: string | undefined, label: string): string {
  if (contact === undefined) return ""
  return `<a href="${escaped(contact.startsWith("https://") ? contact : `mailto:${contact}`)}">${label}</a>`
}

/** As `appearance.tsx` draws it. */
const LOGO =
  '<svg class="logo" viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="9" class="logo-ground"/><path d="M10 8h4.5v11.5H22V24H10z" class="logo-letter"/><circle cx="20.5" cy="11.5" r="3.5" class="logo-coin"/></svg>'
