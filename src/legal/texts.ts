/**
 * Terms, privacy and refunds, in Markdown and in both languages: the operator's own files, or the examples beside this one, which
 * have gaps to fill in. Read once, at the start.
 */
import { stat } from "node:fs/promises"
import { join } from "node:path"
import privacyEn from "./privacy.en.md" with { type: "text" }
import privacyId from "./privacy.id.md" with { type: "text" }
import refundsEn from "./refunds.en.md" with { type: "text" }
import refundsId from "./refunds.id.md" with { type: "text" }
import termsEn from "./terms.en.md" with { type: "text" }
import termsId from "./terms.id.md" with { type: "text" }

export type LegalTopic = "terms" | "privacy" | "refunds"
type LegalFile = `${LegalTopic}.${"id" | "en"}.md`

/** In the order of the version. */
export const exampleTexts: Readonly<Record<LegalFile, string>> = {
  "terms.id.md": termsId,
  "terms.en.md": termsEn,
  "privacy.id.md": privacyId,
  "privacy.en.md": privacyEn,
  "refunds.id.md": refundsId,
  "refunds.en.md": refundsEn,
}
const fileNames = Object.keys(exampleTexts) as LegalFile[]

export interface LegalTexts {
  /** Of all six: another text is another version. */
  readonly version: string
  /** Markdown by the file's name. */
  readonly files: Readonly<Record<LegalFile, string>>
  /** The names of files that have gaps still. */
  readonly unfinished: readonly string[]
}

/** Longer than any such text; each is kept in memory, and sent whole. */
export const LONGEST_BYTES = 128 * 1024
/** As the examples mark what an operator has to fill in. */
const GAP = /\[(?:ISI|FILL IN):/

/** The files of a directory, all six of them, or the examples without one. Or one line for each file that is wrong. */
export async function readLegalTexts(directory: string | undefined): Promise<LegalTexts | string[]> {
  if (directory === undefined) return legalTexts(exampleTexts)
  const read = await Promise.all(fileNames.map(async (name) => ({ name, ...(await readText(join(directory, name))) })))
  const problems = read.flatMap(({ problem }) => problem ?? [])
  if (problems.length > 0) return problems
  return legalTexts(Object.fromEntries(read.map(({ name, text }) => [name, text])) as Record<LegalFile, string>)
}

function legalTexts(files: Readonly<Record<LegalFile, string>>): LegalTexts {
  const hash = new Bun.CryptoHasher("sha256")
  for (const name of fileNames) hash.update(`${name} ${Buffer.byteLength(files[name])}\n${files[name]}`)
  return {
    version: hash.digest("hex").slice(0, 12),
    files,
    unfinished: fileNames.filter((name) => GAP.test(files[name])),
  }
}

async function readText(path: string): Promise<{ readonly text?: string; readonly problem?: string }> {
  try {
    // Only a file is opened: a pipe would wait for whoever writes.
    if (!(await stat(path)).isFile()) return { problem: `${path} is no file` }
    const bytes = await Bun.file(path)
      .slice(0, LONGEST_BYTES + 1)
      .bytes()
    if (bytes.byteLength > LONGEST_BYTES) return { problem: `${path} is larger than ${LONGEST_BYTES / 1024} KiB` }
    // A mark of byte order and an editor's ends of lines are no other text.
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes).replaceAll("\r\n", "\n")
    return text.trim() === "" ? { problem: `${path} is empty` } : { text }
  } catch (error) {
    if (error instanceof TypeError) return { problem: `${path} is not UTF-8` }
    return {
      problem: `${path} cannot be read (${error instanceof Error && "code" in error ? String(error.code) : String(error)})`,
    }
  }
}
