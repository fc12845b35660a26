/**
 * `GET /openapi.json`, and `/docs`: the same as one page of HTML, with no script, no font and no style from anywhere, so that
 * it reads the same on a machine without a network, and shows nobody's visits to a third party.
 */
import { Elysia } from "elysia"
import { failureCodes, failureRow } from "../failure/table.ts"
import { edge } from "./edge.ts"
import { openapiDocument, type OpenapiDocument } from "./openapi.ts"
import { documented } from "./route.ts"
import { anyObject } from "./shapes.ts"

/** Of all routes of the app, which are asked for when all have been added. */
export const openapiController = (routes: () => Parameters<typeof openapiDocument>[0]) => {
  let made: { readonly json: string; readonly page: string } | undefined
  const make = () => {
    const document = openapiDocument(routes())
    return { json: JSON.stringify(document), page: openapiPage(document) }
  }
  return new Elysia({ name: "openapi" })
    .use(edge)
    .get(
      "/openapi.json",
      () => new Response((made ??= make()).json, { headers: { "Content-Type": "application/json" } }),
      documented("none", { tag: "Running", summary: "This document", answer: anyObject }),
    )
    .get(
      "/docs",
      () =>
        new Response((made ??= make()).page, {
          headers: {
            "Content-Type": "text/html; charset=utf-8",
            // The page needs nothing from anywhere, and so may load nothing.
            "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
          },
        }),
      documented("none", { tag: "Running", summary: "This document as a page", media: "text/html" }),
    )
}

const style = `
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
  body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
  code, pre, .path { font-family: ui-monospace, monospace; font-size: .9em }
  pre { overflow-x: auto; padding: .75rem; border: 1px solid color-mix(in srgb, currentColor 20%, transparent) }
  summary { cursor: pointer; padding: .25rem 0 }
  .method { display: inline-block; width: 4.5rem; font-weight: 600; text-transform: uppercase }
  .auth { opacity: .7 } td, th { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top }
`

const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;")
/** The descriptions' backquotes are the only mark-up in them. */
const prose = (text: string): string => escaped(text).replaceAll(/`([^`]*)`/g, "<code>$1</code>")
const block = (value: unknown): string => `<pre>${escaped(JSON.stringify(value, null, 2))}</pre>`

type Operation = OpenapiDocument["paths"][string][string]

function openapiPage({ paths, components, tags, info }: OpenapiDocument): string {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  )
  const sections = tags.map(({ name }) => {
    const members = operations.filter(({ operation }) => operation.tags.some((tag) => tag === name))
    return `<h2>${escaped(name)}</h2>${members.map(operationHtml).join("")}`
  })
  const shapes = Object.entries(components.schemas)
    .map(([name, schema]) => `<details id="${name}"><summary><code>${name}</code></summary>${block(schema)}</details>`)
    .join("")
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Loket API</title>
<meta name="viewport" content="width=device-width"><style>${style}</style></head><body>
<h1>Loket API</h1>
<p>${escaped(info.description)}
The same as a document for machines: <a href="/openapi.json">/openapi.json</a>.</p>
${sections.join("")}<h2>Shapes</h2>${shapes}<h2>Errors</h2>${errorsHtml()}</body></html>`
}

/** By the first of the schemes that an operation accepts. */
const who = ({ security: [scheme] }: Operation): string =>
  scheme === undefined ? "no sign-in" : "key" in scheme ? "API key" : "session"

function operationHtml({ path, method, operation }: { path: string; method: string; operation: Operation }): string {
  const { summary, description, parameters = [], requestBody, responses } = operation
  const rows = parameters.map(
    (parameter) =>
      `<tr><td><code>${escaped(parameter.name)}</code></td><td>${parameter.in}</td><td>${prose(parameter.description ?? "")}</td></tr>`,
  )
  const [[status, answered] = []] = Object.entries(responses)
  const answers = Object.entries(answered?.content ?? {}).map(
    ([type, { schema }]) => `<p>${status}, <code>${escaped(type)}</code></p>${block(schema)}`,
  )
  const body = requestBody?.content["application/json"].schema
  return `<details><summary><span class="method">${method}</span> <span class="path">${escaped(path)}</span>
${prose(summary)} <span class="auth">(${who(operation)})</span></summary>
${description === undefined ? "" : `<p>${prose(description)}</p>`}
${rows.length === 0 ? "" : `<table>${rows.join("")}</table>`}
${body === undefined ? "" : `<p>Body</p>${block(body)}`}${answers.length === 0 ? `<p>${status}</p>` : answers.join("")}</details>`
}

function errorsHtml(): string {
  const rows = failureCodes.map((code) => {
    const { status, retryable, message } = failureRow(code)
    return `<tr><td>${status}</td><td><code>${code}</code></td><td>${retryable ? "retry" : ""}</td><td>${escaped(message)}</td></tr>`
  })
  return `<table><tr><th>Status</th><th>Code</th><th></th><th>Meaning</th></tr>${rows.join("")}</table>`
}
