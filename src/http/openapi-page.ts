/**
 * The OpenAPI document as one page of HTML: no script, no font and no style from anywhere, so that it reads the same on a
 * machine without a network, and shows nobody's visits to a third party.
 */
import { failureCodes, failureRow } from "../failure/table.ts"
import type { Operation } from "./openapi-operations.ts"
import type { Schema } from "./openapi-schemas.ts"

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
const who = { none: "no sign-in", key: "API key", session: "session" } as const

export function openapiPage(operations: readonly Operation[], schemas: Readonly<Record<string, Schema>>): string {
  const sections = [...Map.groupBy(operations, ({ tag }) => tag)]
    .map(([tag, members]) => `<h2>${escaped(tag)}</h2>${members.map(operationHtml).join("")}`)
    .join("")
  const shapes = Object.entries(schemas)
    .map(([name, schema]) => `<details id="${name}"><summary><code>${name}</code></summary>${block(schema)}</details>`)
    .join("")
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Loket API</title>
<meta name="viewport" content="width=device-width"><style>${style}</style></head><body>
<h1>Loket API</h1>
<p>One prepaid balance in Rupiah, three wire formats. Money is in micro-rupiah: 1 Rp = 1,000,000 micro.
The same as a document for machines: <a href="/openapi.json">/openapi.json</a>.</p>
${sections}<h2>Shapes</h2>${shapes}<h2>Errors</h2>${errorsHtml()}</body></html>`
}

function operationHtml({ method, path, auth, summary, description, parameters, body, status, answer }: Operation) {
  const rows = (parameters ?? []).map(
    (parameter) =>
      `<tr><td><code>${escaped(parameter.name)}</code></td><td>${parameter.in}</td><td>${prose(parameter.description ?? "")}</td></tr>`,
  )
  const answers = Object.entries(answer ?? {}).map(
    ([type, { schema }]) => `<p>${status}, <code>${escaped(type)}</code></p>${block(schema)}`,
  )
  return `<details><summary><span class="method">${method}</span> <span class="path">${escaped(path)}</span>
${prose(summary)} <span class="auth">(${who[auth]})</span></summary>
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
