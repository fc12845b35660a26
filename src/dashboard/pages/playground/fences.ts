/** The part of Markdown that matters for reading an answer: fenced code blocks, and code within a line. */
interface TextPiece {
  readonly type: "text" | "code"
  /** The language that the fence names; may be empty. */
  readonly language: string
  readonly text: string
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]*)[^`]*$/

/** An open fence, in an answer that still streams, runs to the end. */
export function piecesIn(text: string): readonly TextPiece[] {
  const pieces: TextPiece[] = []
  let open: { readonly mark: string; readonly language: string } | undefined
  let lines: string[] = []
  const close = () => {
    const piece = lines.join("\n")
    if (open !== undefined) pieces.push({ type: "code", language: open.language, text: piece })
    else if (piece.trim() !== "") pieces.push({ type: "text", language: "", text: piece.replace(/^\n+|\s+$/g, "") })
    lines = []
  }
  for (const line of text.split("\n")) {
    const [, mark = "", language = ""] = FENCE.exec(line) ?? []
    const closes = open !== undefined && mark.startsWith(open.mark) && language === ""
    if (closes || (open === undefined && mark !== "")) {
      close()
      open = closes ? undefined : { mark, language }
    } else lines.push(line)
  }
  if (open === undefined || lines.length > 0) close()
  return pieces
}

/** `code` within a line. A single backtick stays as it is. */
export const codeIn = (text: string): readonly { readonly isCode: boolean; readonly text: string }[] =>
  text
    .split(/(`[^`\n]+`)/)
    .filter((part) => part !== "")
    .map((part) =>
      /^`[^`\n]+`$/.test(part) ? { isCode: true, text: part.slice(1, -1) } : { isCode: false, text: part },
    )
