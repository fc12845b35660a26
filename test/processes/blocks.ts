/** The fenced blocks of the documents for operators. */
import { join } from "node:path"
import { Glob } from "bun"

export const root = join(import.meta.dir, "../..")

export interface Block {
  /** From the root of the repository. */
  readonly path: string
  /** Of the opening fence, from 1. */
  readonly line: number
  readonly language: string
  /** What stands behind the language. */
  readonly info: string
  readonly text: string
}

/** The documents for operators, the first page too. */
export const operatingPages = (): string[] =>
  ["docs/operating.md", ...new Glob("docs/operating/*.md").scanSync(root)].toSorted()

export async function blocksOf(path: string): Promise<Block[]> {
  const blocks: Block[] = []
  let open: { line: number; language: string; info: string; lines: string[] } | undefined
  const lines = (await Bun.file(join(root, path)).text()).split("\n")
  for (const [index, line] of lines.entries()) {
    const fence = /^```(\S*) ?(.*)$/.exec(line)
    if (fence === null) open?.lines.push(line)
    else if (open === undefined) open = { line: index + 1, language: fence[1] ?? "", info: fence[2] ?? "", lines: [] }
    else {
      const { lines: text, ...rest } = open
      blocks.push({ path, ...rest, text: `${text.join("\n")}\n` })
      open = undefined
    }
  }
  if (open !== undefined) throw new Error(`${path}:${open.line}: a block has no end`)
  return blocks
}
