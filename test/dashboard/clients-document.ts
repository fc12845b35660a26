/**
 * The set-ups in `docs/clients.md`, made of the same list as the quick start page: `bun test/dashboard/clients-document.ts`
 * writes them between its two marks.
 */
import type { Client, Snippet } from "../../src/dashboard/pages/quick-start/client.ts"
import { clients } from "../../src/dashboard/pages/quick-start/clients.ts"

const BEGIN =
  "<!-- Made by `bun test/dashboard/clients-document.ts` from the lists of the quick start page. Do not edit. -->"
const END = "<!-- Here ends what is made. -->"

/** The document with its set-ups made anew. */
export function withClients(page: string): string {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (begin < 0 || end < begin) throw new Error("docs/clients.md has lost its marks")
  return `${page.slice(0, begin + BEGIN.length)}\n\n${clients.map(section).join("\n")}\n${page.slice(end)}`
}

const section = ({ name, seen, formats, example, snippets, notes }: Client): string =>
  [
    `## ${name}`,
    `${"tried" in seen ? `Tried with ${seen.tried}.` : `Not tried here: by [its own documentation](${seen.page}).`} ${
      formats.length === 1 ? "Format" : "Formats"
    }: ${formats.join(", ")}.`,
    ...snippets.map((snippet) => block(snippet, example)),
    ...(notes === undefined ? [] : [notes.en.map((note) => `- ${inExample(note, example)}`).join("\n")]),
  ].join("\n\n") + "\n"

const block = ({ title, language, code }: Snippet, example: string): string =>
  `${title === undefined || /^(?:TypeScript|Python)$/.test(title) ? "" : `In ${title}:\n\n`}\`\`\`${language}\n${inExample(code, example)}\n\`\`\``

/** The gateway's address and the key stay to be filled in; so does what is not of this model alone. */
const inExample = (text: string, example: string): string =>
  text.replaceAll("<MODEL>", example).replaceAll("<CONTEXT>", "128000").replaceAll("<OUTPUT>", "8192")

if (import.meta.main) {
  const path = new URL("../../docs/clients.md", import.meta.url)
  await Bun.write(path, withClients(await Bun.file(path).text()))
}
