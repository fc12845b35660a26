/**
 * `/terms`, `/privacy` and `/refunds`: the operator's texts as pages that need no script and no account, in the dashboard's look.
 * Nothing of a text is taken for HTML, and no picture is loaded.
 */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { edge } from "../../http/edge.ts"
import { open } from "../../http/route.ts"
import type { LegalTexts, LegalTopic } from "../../legal/texts.ts"
import { framed } from "./frame.ts"
import { type Language, languageOf, once } from "./kept.ts"
import { field } from "../../http/shapes.ts"

const words = {
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
          id: `Halaman ${words.id[topic].toLowerCase()} dari operator`,
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
  const text = words[language]
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
