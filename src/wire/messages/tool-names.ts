/**
 * Tool names and call ids as a messages backend takes them: letters, digits, `_` and `-`, a name up to 128 characters.
 * What fits is never changed. A name that does not fit gets a piece of its hash, so that it is written alike in every
 * turn (the backend's cache depends on it) and no state is needed to find the way back.
 */
import type { Prompt } from "../../language/prompt.ts"

const LONGEST_NAME = 128
const DIGEST_DIGITS = 8

export function writtenName(name: string): string {
  const plain = writtenId(name)
  if (plain === name && name.length <= LONGEST_NAME) return name
  const digest = new Bun.CryptoHasher("sha256").update(name).digest("hex").slice(0, DIGEST_DIGITS)
  return `${plain.slice(0, LONGEST_NAME - DIGEST_DIGITS - 1)}_${digest}`
}

/** A call and its result are written alike, so they still belong together. */
export const writtenId = (id: string): string => id.replace(/[^\w-]/g, "_") || "_"

/** The prompt's tools by the names that the backend was told. */
export class ToolsAsked {
  readonly #tools: ReadonlyMap<string, { readonly name: string; readonly custom: boolean }>

  constructor({ tools }: Pick<Prompt, "tools">) {
    this.#tools = new Map(
      tools.flatMap((tool) =>
        tool.type === "web-search"
          ? []
          : [[writtenName(tool.name), { name: tool.name, custom: tool.type === "custom" }] as const],
      ),
    )
  }

  /** A name that was never told is a model's invention, and is passed on. */
  called(written: string): { readonly name: string; readonly custom: boolean } {
    return this.#tools.get(written) ?? { name: written, custom: false }
  }
}
