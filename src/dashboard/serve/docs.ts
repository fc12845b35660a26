/**
 * `GET /openapi.json`, and `/docs`: the same as a page in the frame of the visitors' pages and in both languages. It is the document
 * that is shown, made of the routes, and nothing of it is written here.
 */
import { Elysia } from "elysia"
import { failureCodes, failureRow } from "../../failure/table.ts"
import { edge } from "../../http/edge.ts"
import { type Json, openapiDocument, type OpenapiDocument } from "../../http/openapi.ts"
import { documented, tags } from "../../http/route.ts"
import { anyObject, type Said } from "../../http/shapes.ts"
import { indonesianFor } from "../components/text.ts"
import { escaped, framed, languageQuery } from "./frame.ts"
import { KeptPage, type Language, languageOf } from "./kept.ts"

/** Of all routes of the app, which are asked for when all have been added. */
export const docsController = (
  routes: () => Parameters<typeof openapiDocument>[0],
  supportContact: string | undefined,
) => {
  let json: string | undefined
  const kept = new KeptPage()
  return new Elysia({ name: "openapi" })
    .use(edge)
    .get(
      "/openapi.json",
      () =>
        new Response((json ??= JSON.stringify(openapiDocument(routes()))), {
          headers: { "Content-Type": "application/json" },
        }),
      documented("none", {
        tag: "Running",
        summary: { en: "This document", id: "Dokumen ini untuk mesin (OpenAPI)" },
        answer: anyObject,
      }),
    )
    .get(
      "/docs",
      async ({ request }) => {
        const asked = new URL(request.url).searchParams.get("lang")
        const language = languageOf(asked, request.headers.get("accept-language") ?? "")
        return await kept.answer(request, {
          language,
          // The routes of a process stay as they are.
          of: "",
          base: "",
          vary: "Accept-Language, Accept-Encoding",
          make: () => docsPage(openapiDocument(routes(), language), language, supportContact),
        })
      },
      documented("none", {
        tag: "Running",
        summary: { en: "This document as a page", id: "Dokumen ini sebagai halaman" },
        query: languageQuery,
        media: "text/html",
      }),
    )
}

/** The descriptions' backquotes are the only mark-up in them. */
const prose = (text: string): string => escaped(text).replaceAll(/`([^`]*)`/g, "<code>$1</code>")
const anchor = (text: string): string => text.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-")

interface Shown {
  readonly path: string
  readonly method: string
  readonly operation: OpenapiDocument["paths"][string][string]
}

function docsPage(
  { paths, components }: OpenapiDocument,
  language: Language,
  supportContact: string | undefined,
): Promise<string> {
  const text = words[language]
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Shown => ({ path, method, operation })),
  )
  const sections = [
    ...tags.map((tag) => ({
      id: anchor(tag),
      name: groups[tag][language],
      entries: operations.filter(({ operation }) => operation.tags.includes(tag)).map((each) => entry(each, text)),
    })),
    {
      id: "shapes",
      name: text.shapes,
      entries: Object.entries(components.schemas).map(
        ([name, schema]) =>
          `<details id="shape-${name}"><summary><code class="route">${name}</code></summary><div>${described(schema)}${fields(schema, text)}</div></details>`,
      ),
    },
    { id: "errors", name: text.errors, entries: failureCodes.map((code) => failureEntry(code, language)) },
  ]
  const links = sections.map(
    ({ id, name, entries }) => `<li><a href="#${id}">${name}<span>${entries.length}</span></a></li>`,
  )
  const content = `<h1>${text.title}</h1><p class="docs-lead">${text.lead} <a href="/openapi.json">/openapi.json</a></p>
<div class="docs-columns"><aside><label class="field docs-filter" data-none="${text.none}"><span>${text.filter}</span><span class="input"><input type="search" autocomplete="off" placeholder="${text.example}"></span></label>
<p class="docs-none" role="status"></p><nav aria-label="${text.groups}"><ul>${links.join("")}</ul></nav></aside>
<div class="docs-groups">${sections.map(({ id, name, entries }) => `<section id="${id}" aria-labelledby="${id}-title"><h2 id="${id}-title">${name}</h2><div class="card card-flush">${entries.join("\n")}</div></section>`).join("\n")}</div></div>`
  return framed({
    language,
    title: text.title,
    description: text.description,
    path: "/docs",
    kind: "docs",
    content,
    supportContact,
    script: "filter.js",
  })
}

/** By the first of the schemes that an operation accepts. */
const who = ({ security: [scheme] }: Shown["operation"], { credentials }: Words): string =>
  scheme === undefined
    ? credentials.none
    : "key" in scheme
      ? credentials.key
      : "token" in scheme
        ? credentials.token
        : credentials.session

function entry({ path, method, operation }: Shown, text: Words): string {
  const { summary, parameters = [], requestBody, responses } = operation
  const taken = parameters.map(
    ({ name, in: place, required, schema, description }) =>
      `<li><code>${escaped(name)}</code> <span>${[text.places[place], kindOf(schema), required ? text.required : ""].filter((part) => part !== "").join(" · ")}</span>${description === undefined ? "" : `<p>${prose(description)}</p>`}</li>`,
  )
  const body = requestBody?.content["application/json"].schema
  const [[status, answered] = []] = Object.entries(responses)
  const answers = Object.entries(answered?.content ?? {}).map(
    ([type, { schema }]) =>
      `<h4>${text.answer} ${status}, <code>${escaped(type)}</code></h4>${wholeKind(schema)}${fields(schema, text)}`,
  )
  return `<details id="${method}${anchor(path.replaceAll(/[{}]/g, ""))}"><summary><span class="method method-${method}">${method}</span>
<code class="route">${escaped(path)}</code> <span class="about">${prose(summary)}</span> <span class="who">${who(operation, text)}</span></summary>
<div>${described(operation)}${taken.length === 0 ? "" : `<h4>${text.parameters}</h4><ul class="fields">${taken.join("")}</ul>`}
${body === undefined ? "" : `<h4>${text.body}</h4>${wholeKind(body)}${fields(body, text)}`}${answers.length === 0 ? `<h4>${text.answer} ${status}</h4>` : answers.join("")}</div></details>`
}

function failureEntry(code: (typeof failureCodes)[number], language: Language): string {
  const { status, retryable, message } = failureRow(code)
  const meaning = language === "id" ? (indonesianFor(code) ?? code) : message
  return `<div class="failure" id="error-${anchor(code)}"><code class="route">${code}</code> <span class="who">${status}${retryable ? ` · ${words[language].retry}` : ""}</span><p>${escaped(meaning)}</p></div>`
}

const described = ({ description }: { readonly description?: unknown }): string =>
  typeof description === "string" ? `<p>${prose(description)}</p>` : ""

const several = (schema: Json, name: "anyOf" | "allOf"): readonly Json[] =>
  (schema[name] as readonly Json[] | undefined) ?? []
const code = (value: unknown): string => `<code>${escaped(String(value))}</code>`

/** What a schema takes, in a line: JSON Schema's own words, which are the same in every language. */
function kindOf(schema: Json): string {
  const { $ref: reference, enum: values, const: value, type, items } = schema
  if (typeof reference === "string") {
    const name = reference.split("/").at(-1) ?? ""
    return `<a href="#shape-${name}">${name}</a>`
  }
  if (Array.isArray(values)) return values.map(code).join(" | ")
  if (value !== undefined) return code(value)
  const members = several(schema, "anyOf")
  if (members.length > 0) return [...new Set(members.map(kindOf))].join(" | ")
  const references = several(schema, "allOf").filter((part) => part["$ref"] !== undefined)
  if (references.length > 0) return references.map(kindOf).join(" & ")
  if (items !== undefined) return `${kindOf(items as Json)}[]${Array.isArray(type) ? " | null" : ""}`
  return type === undefined ? "object" : [type].flat().map(String).join(" | ")
}

/** Of a schema that is not told by its fields alone. */
const wholeKind = (schema: Json): string => {
  const kind = kindOf(schema)
  return kind === "object" ? "" : `<p>${kind}</p>`
}

/** Its fields and those within them, each by its whole name. */
function fields(schema: Json, text: Words): string {
  const rows = rowsOf(schema, "", text)
  return rows.length === 0 ? "" : `<ul class="fields">${rows.join("")}</ul>`
}

function rowsOf(schema: Json, within: string, text: Words): string[] {
  const { properties = {}, required = [], items } = schema
  const own = Object.entries(properties as Readonly<Record<string, Json>>).flatMap(([name, each]) => {
    const isNeeded = (required as readonly string[]).includes(name)
    const line = `<li><code>${escaped(within + name)}</code> <span>${kindOf(each)}${isNeeded ? "" : ` · ${text.optional}`}</span>${described(each)}</li>`
    return [line, ...rowsOf(each, `${within}${name}.`, text)]
  })
  const parts = [...several(schema, "allOf"), ...several(schema, "anyOf")]
  const listed = items === undefined ? [] : rowsOf(items as Json, `${within.replace(/\.$/, "")}[].`, text)
  return [...own, ...parts.flatMap((part) => rowsOf(part, within, text)), ...listed]
}

const groups: Readonly<Record<(typeof tags)[number], Said>> = {
  Models: { en: "Models", id: "Model" },
  Calls: { en: "Calls", id: "Panggilan" },
  Usage: { en: "Usage", id: "Pemakaian" },
  Account: { en: "Account", id: "Akun" },
  Keys: { en: "Keys", id: "Kunci" },
  "Top-ups": { en: "Top-ups", id: "Isi saldo" },
  Running: { en: "Running", id: "Layanan" },
  Operator: { en: "Operator", id: "Operator" },
}

const words = {
  id: {
    title: "Dokumentasi API",
    description: "Semua alamat API Loket: siapa yang boleh memanggilnya, apa yang diterimanya, dan apa jawabannya.",
    lead: "Satu saldo prabayar dalam rupiah, tiga format. Uang ditulis dalam mikro-rupiah: Rp&nbsp;1 = 1.000.000&nbsp;mikro. Yang sama untuk mesin:",
    filter: "Saring",
    example: "/usage, kuitansi …",
    none: "Tidak ada yang cocok.",
    groups: "Kelompok",
    parameters: "Parameter",
    places: { path: "jalur", query: "kueri", header: "header" },
    required: "wajib",
    optional: "boleh kosong",
    body: "Badan permintaan",
    answer: "Jawaban",
    shapes: "Bentuk data",
    errors: "Kesalahan",
    retry: "boleh dicoba lagi",
    credentials: { none: "tanpa masuk", key: "kunci API", token: "token pengelola", session: "sesi" },
  },
  en: {
    title: "API reference",
    description: "Every address of Loket's API: who may call it, what it takes, and what it answers.",
    lead: "One prepaid balance in rupiah, three wire formats. Money is in micro-rupiah: Rp&nbsp;1 is 1,000,000&nbsp;micro. The same for machines:",
    filter: "Filter",
    example: "/usage, receipt …",
    none: "Nothing matches.",
    groups: "Groups",
    parameters: "Parameters",
    places: { path: "path", query: "query", header: "header" },
    required: "required",
    optional: "optional",
    body: "Request body",
    answer: "Answer",
    shapes: "Shapes",
    errors: "Errors",
    retry: "may be tried again",
    credentials: { none: "no sign-in", key: "API key", token: "management token", session: "session" },
  },
} as const
type Words = (typeof words)[Language]
