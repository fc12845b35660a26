/**
 * `/terms`, `/privacy` and `/refunds`: the operator's texts as pages that need no script and no account, in the dashboard's look.
 * Nothing of a text is taken for HTML, and no picture is loaded.
 */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { edge } from "../../http/edge.ts"
import { open } from "../../http/route.ts"
import type { LegalTexts, LegalTopic } from "../../legal/texts.ts"
import { assets, guarded } from "./controller.ts"

type Language = "id" | "en"

const words = {
  id: {
    terms: "Ketentuan Layanan",
    privacy: "Kebijakan Privasi",
    refunds: "Ketentuan Pengembalian Dana",
    short: { terms: "Ketentuan", privacy: "Privasi", refunds: "Pengembalian dana" },
    navigation: "Ketentuan layanan ini",
    version: "Versi",
    other: { language: "en", name: "English" },
  },
  en: {
    terms: "Terms of Service",
    privacy: "Privacy Policy",
    refunds: "Refund Policy",
    short: { terms: "Terms", privacy: "Privacy", refunds: "Refunds" },
    navigation: "The terms of this service",
    version: "Version",
    other: { language: "id", name: "Indonesia" },
  },
} as const

const topics = ["terms", "privacy", "refunds"] as const

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
        summary: `The operator's ${topic === "terms" ? "terms of service" : topic === "privacy" ? "privacy policy" : "refund policy"} as a page`,
        query: Type.Object({
          lang: Type.Optional(Type.String({ description: "`id` or `en`; what the browser asks for without it" })),
        }),
        media: "text/html",
      },
      async ({ request, query }) => {
        const language = languageOf(query.lang, request.headers.get("accept-language") ?? "")
        return new Response(await pageOf(topic, language), {
          headers: {
            ...guarded,
            "Content-Type": "text/html; charset=utf-8",
            "Content-Language": language,
            Vary: "Accept-Language",
          },
        })
      },
    )
  return new Elysia({ name: "legal" })
    .use(edge)
    .get(...route("terms"))
    .get(...route("privacy"))
    .get(...route("refunds"))
}

/** Indonesian, unless another language is asked for before it (RFC 9110, 12.5.4), as the dashboard has it. */
export function languageOf(chosen: string | undefined, accepted: string): Language {
  if (chosen === "id" || chosen === "en") return chosen
  let best = { name: "id", weight: 0 }
  for (const part of accepted.split(",")) {
    const [name = "", ...parameters] = part.split(";").map((word) => word.trim().toLowerCase())
    const weight = Number(/^q=([01](?:\.\d{0,3})?)$/.exec(parameters[0] ?? "q=1")?.[1] ?? 0)
    if (name !== "" && weight > best.weight) best = { name, weight }
  }
  return /^(?:\*|(?:id|in|ms|jv|su)\b)/.test(best.name) ? "id" : "en"
}

async function page(texts: LegalTexts, topic: LegalTopic, language: Language): Promise<string> {
  const text = words[language]
  const { page: own } = await assets()
  const links =
    new TextDecoder().decode(own.bodies.get("identity")).match(/<link\b[^>]*\brel="(?:icon|stylesheet)"[^>]*>/g) ?? []
  const content = await rendered(texts.files[`${topic}.${language}.md`])
  const navigation = topics.map(
    (each) =>
      `<a href="/${each}?lang=${language}"${each === topic ? ' aria-current="page"' : ""}>${text.short[each]}</a>`,
  )
  const { other } = text
  return `<!doctype html>
<html lang="${language}"><head><meta charset="utf-8"><title>${text[topic]} · Loket</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
${links.join("")}</head><body><div class="bare legal">
<header class="bare-head"><a class="brand" href="/dashboard">${LOGO}Loket</a>
<nav class="bare-links" aria-label="${text.navigation}">${navigation.join("")}</nav></header>
<main class="card">${content.includes("<h1>") ? "" : `<h1>${text[topic]}</h1>`}${content}</main>
<footer class="bare-foot"><span>${text.version} <code>${texts.version}</code></span>
<a href="/${topic}?lang=${other.language}" hreflang="${other.language}" lang="${other.language}">${other.name}</a></footer>
</div></body></html>
`
}

/** As `appearance.tsx` draws it. */
const LOGO =
  '<svg class="logo" viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="9" class="logo-ground"/><path d="M10 8h4.5v11.5H22V24H10z" class="logo-letter"/><circle cx="20.5" cy="11.5" r="3.5" class="logo-coin"/></svg>'

/** Markdown as HTML: tags in it are text, links lead to no script, and nothing has a style of its own, which the policy forbids. */
export async function rendered(markdown: string): Promise<string> {
  const { default: MarkdownIt } = await import("markdown-it")
  const reader = new MarkdownIt({ html: false }).disable("image")
  const tokens = reader.parse(markdown, {})
  for (const token of tokens) token.attrs = token.attrs?.filter(([name]) => name !== "style") ?? null
  return reader.renderer.render(tokens, reader.options, {})
}
