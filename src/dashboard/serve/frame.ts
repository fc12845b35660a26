/**
 * The frame of the pages that the server renders for anybody: HTML with one small style sheet in it, and no script that they
 * need. What stands in a page is escaped where it is put in, so nothing of a name, an address or a text is taken for HTML.
 *
 * The simplest of them are here too: `/terms`, `/privacy` and `/refunds`, the operator's texts as pages that need no script and
 * no account, in the dashboard's look. Nothing of a text is taken for HTML, and no picture is loaded.
 */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { edge } from "../../http/edge.ts"
import { open } from "../../http/route.ts"
import { field } from "../../http/shapes.ts"
import type { LegalTexts, LegalTopic } from "../../legal/texts.ts"
import { assets, type Language, languageOf, once } from "./kept.ts"

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

const legalWords = {
  id: {
    terms: "Ketentuan Layanan",
    privacy: "Kebijakan Privasi",
    refunds: "Ketentuan Pengembalian Dana",
    version: "Versi",
    description: (title: string) => `${title} gerbang model AI ini.`,
  },
  en: {
    terms: "Terms of Service",
    privacy: "Privacy Policy",
    refunds: "Refund Policy",
    version: "Version",
    description: (title: string) => `${title} of this gateway to AI models.`,
  },
} as const

export const languageQuery = Type.Object({
  lang: Type.Optional(
    Type.String({
      description: field(
        "`id` or `en`; what the browser asks for without it",
        "`id` atau `en`; tanpa itu, bahasa yang diminta peramban",
      ),
    }),
  ),
})

export const legalController = (texts: LegalTexts) => {
  /** Made when somebody comes, once for each. */
  const made = new Map<string, Promise<string>>()
  const pageOf = async (topic: LegalTopic, language: Language): Promise<string> => {
    const name = `${topic}.${language}`
    const making = made.get(name) ?? page(texts, topic, language)
    made.set(name, making)
    return await making.catch((error: unknown) => {
      made.delete(name)
      throw error
    })
  }
  const route = <Topic extends LegalTopic>(topic: Topic) =>
    open(
      `/${topic}`,
      {
        tag: "Running",
        summary: {
          en: `The operator's ${topic === "terms" ? "terms of service" : topic === "privacy" ? "privacy policy" : "refund policy"} as a page`,
          id: `Halaman ${legalWords.id[topic].toLowerCase()} dari operator`,
        },
        query: languageQuery,
        media: "text/html",
      },
      async ({ request, query }) => {
        const language = languageOf(query.lang, request.headers.get("accept-language") ?? "")
        return await once(request, await pageOf(topic, language), language, "Accept-Language")
      },
    )
  return new Elysia({ name: "legal" })
    .use(edge)
    .get(...route("terms"))
    .get(...route("privacy"))
    .get(...route("refunds"))
}

async function page(texts: LegalTexts, topic: LegalTopic, language: Language): Promise<string> {
  const text = legalWords[language]
  const content = await rendered(texts.files[`${topic}.${language}.md`])
  return await framed({
    language,
    title: text[topic],
    description: text.description(text[topic]),
    path: `/${topic}`,
    kind: "legal",
    content: `<article class="card">${content.includes("<h1>") ? "" : `<h1>${text[topic]}</h1>`}${content}</article>`,
    foot: `<span>${text.version} <code>${texts.version}</code></span>`,
  })
}

/** Markdown as HTML: tags in it are text, links lead to no script, and nothing has a style of its own, which the policy forbids. */
export async function rendered(markdown: string): Promise<string> {
  const { default: MarkdownIt } = await import("markdown-it")
  const reader = new MarkdownIt({ html: false }).disable("image")
  const tokens = reader.parse(markdown, {})
  for (const token of tokens) token.attrs = token.attrs?.filter(([name]) => name !== "style") ?? null
  return reader.renderer.render(tokens, reader.options, {})
}
