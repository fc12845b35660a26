/**
 * Draws a paper for bookkeepers as PDF: who to whom, a table over as many pages as it needs, sums and notes. A4, in points.
 * The letters are those of Helvetica, which every reader has; a letter that it lacks is shown without its marks, or as `?`.
 */
import { PDFDocument, type PDFFont, type PDFPage, rgb, StandardFonts } from "@cantoo/pdf-lib"

export interface Paper {
  readonly title: string
  /** Under the title: its number, or that it is a draft. */
  readonly number: string
  readonly language: string
  readonly isDraft: boolean
  readonly issuedAt: Date
  readonly facts: readonly (readonly [name: string, value: string])[]
  /** Beside each other. */
  readonly parties: readonly { readonly title: string; readonly lines: readonly string[] }[]
  readonly columns: readonly { readonly head: string; readonly width: number; readonly isNumeric?: boolean }[]
  readonly rows: readonly (readonly string[])[]
  readonly totals: readonly { readonly name: string; readonly value: string; readonly isStrong?: boolean }[]
  readonly notes: readonly string[]
  /** With `{page}` and `{pages}`. */
  readonly pageOf: string
}

const WIDTH = 595.28
const HEIGHT = 841.89
const MARGIN = 48
const RIGHT = WIDTH - MARGIN
const INNER = RIGHT - MARGIN
/** Above the foot. */
const BOTTOM = MARGIN + 24
const GAP = 8
const ink = rgb(0.1, 0.1, 0.12)
const faint = rgb(0.42, 0.42, 0.46)
const rule = rgb(0.82, 0.82, 0.85)
const warning = rgb(0.72, 0.15, 0.12)

export async function drawPaper(paper: Paper): Promise<Uint8Array> {
  const pdf = await PDFDocument.create()
  pdf.setTitle(`${paper.title} ${paper.number}`)
  pdf.setLanguage(paper.language)
  pdf.setProducer("Loket")
  pdf.setCreator("Loket")
  // The same paper is the same bytes.
  pdf.setCreationDate(paper.issuedAt)
  pdf.setModificationDate(paper.issuedAt)
  const plain = await pdf.embedFont(StandardFonts.Helvetica)
  const bold = await pdf.embedFont(StandardFonts.HelveticaBold)
  const pen = new Pen(pdf, plain, bold)
  head(pen, paper)
  table(pen, paper)
  sums(pen, paper)
  for (const note of paper.notes) pen.paragraph(note, 8, faint)
  const pages = pdf.getPages()
  pages.forEach((page, index) => {
    pen.text(page, `${paper.title} ${paper.number}`, MARGIN, MARGIN - 6, { size: 8, color: faint })
    const pageOf = paper.pageOf.replace("{page}", `${index + 1}`).replace("{pages}", `${pages.length}`)
    pen.text(page, pageOf, RIGHT, MARGIN - 6, { size: 8, color: faint, isRight: true })
  })
  return await pdf.save()
}

interface Look {
  readonly size?: number
  readonly isBold?: boolean
  readonly isRight?: boolean
  readonly color?: ReturnType<typeof rgb>
}

/** Knows where on which page the next line goes. */
class Pen {
  page: PDFPage
  /** The top of what comes next. */
  y = HEIGHT - MARGIN
  readonly #pdf: PDFDocument
  readonly #plain: PDFFont
  readonly #bold: PDFFont
  readonly #letters: ReadonlySet<number>

  constructor(pdf: PDFDocument, plain: PDFFont, bold: PDFFont) {
    this.#pdf = pdf
    this.#plain = plain
    this.#bold = bold
    this.#letters = new Set(plain.getCharacterSet())
    this.page = this.turn()
  }

  turn(): PDFPage {
    this.page = this.#pdf.addPage([WIDTH, HEIGHT])
    this.y = HEIGHT - MARGIN
    return this.page
  }

  /** `y` is the base line; `x` the right end of what is right-aligned. */
  text(
    page: PDFPage,
    given: string,
    x: number,
    y: number,
    { size = 9, isBold = false, isRight, color = ink }: Look = {},
  ) {
    const text = this.shown(given)
    const font = isBold ? this.#bold : this.#plain
    const from = isRight === true ? x - font.widthOfTextAtSize(text, size) : x
    page.drawText(text, { x: from, y, size, font, color })
  }

  line(y: number, color = rule) {
    this.page.drawLine({ start: { x: MARGIN, y }, end: { x: RIGHT, y }, thickness: 0.6, color })
  }

  paragraph(text: string, size: number, color = ink) {
    for (const line of this.wrapped(text, INNER, size)) {
      if (this.y - size - 4 < BOTTOM) this.turn()
      this.y -= size + 4
      this.text(this.page, line, MARGIN, this.y, { size, color })
    }
    this.y -= 3
  }

  /** In lines of this width; a word that is wider is broken. */
  wrapped(given: string, width: number, size = 9, isBold = false): readonly string[] {
    const font = isBold ? this.#bold : this.#plain
    const fits = (text: string) => font.widthOfTextAtSize(text, size) <= width
    return given.split("\n").flatMap((part) => {
      const lines: string[] = []
      let line = ""
      for (const word of this.shown(part).split(" ")) {
        const longer = line === "" ? word : `${line} ${word}`
        if (fits(longer)) {
          line = longer
          continue
        }
        if (line !== "") lines.push(line)
        line = ""
        for (const letter of word) {
          if (!fits(line + letter)) {
            lines.push(line)
            line = ""
          }
          line += letter
        }
      }
      return [...lines, line]
    })
  }

  shown(text: string): string {
    const has = (part: string) => Array.from(part).every((letter) => this.#letters.has(letter.codePointAt(0) ?? 0))
    return Array.from(text.normalize("NFC").replaceAll(/[\p{Cc}\u2028\u2029\u00a0\u202f]/gu, " "))
      .map((letter) => {
        if (has(letter)) return letter
        const bare = letter.normalize("NFKD").replaceAll(/\p{M}/gu, "")
        return bare !== "" && has(bare) ? bare : /^[\p{M}\p{Cf}]$/u.test(letter) ? "" : "?"
      })
      .join("")
  }
}

function head(pen: Pen, { title, number, isDraft, facts, parties }: Paper) {
  pen.y -= 20
  pen.text(pen.page, title, MARGIN, pen.y, { size: 20, isBold: true })
  pen.y -= 16
  pen.text(pen.page, number, MARGIN, pen.y, { size: 10, isBold: true, color: isDraft ? warning : faint })
  pen.y -= 14
  pen.line(pen.y)
  const width = INNER / parties.length
  const top = pen.y
  const ends = parties.map((party, index) => {
    const x = MARGIN + index * width
    let y = top - 18
    pen.text(pen.page, party.title, x, y, { size: 8, color: faint })
    party.lines.forEach((line, at) => {
      for (const piece of pen.wrapped(line, width - 2 * GAP, 9, at === 0)) {
        y -= 13
        pen.text(pen.page, piece, x, y, { isBold: at === 0 })
      }
    })
    return y
  })
  pen.y = Math.min(...ends) - 12
  pen.line(pen.y)
  pen.y -= 6
  for (const [name, value] of facts) {
    const lines = pen.wrapped(value, INNER - 140)
    lines.forEach((line, index) => {
      pen.y -= 13
      if (index === 0) pen.text(pen.page, name, MARGIN, pen.y, { color: faint })
      pen.text(pen.page, line, MARGIN + 140, pen.y)
    })
  }
  pen.y -= 14
}

function table(pen: Pen, { columns, rows }: Paper) {
  const total = columns.reduce((sum, { width }) => sum + width, 0)
  let x = MARGIN
  const places = columns.map(({ width, isNumeric = false, head: name }) => {
    const from = x
    x += (width / total) * INNER
    return { name, isNumeric, width: x - from - GAP, at: isNumeric ? (x > RIGHT - 1 ? RIGHT : x - GAP) : from }
  })
  const headLine = () => {
    pen.y -= 13
    for (const { name, at, isNumeric } of places)
      pen.text(pen.page, name, at, pen.y, { size: 8, isBold: true, isRight: isNumeric, color: faint })
    pen.y -= 5
    pen.line(pen.y, faint)
  }
  headLine()
  for (const row of rows) {
    const cells = places.map(({ width, isNumeric }, column) =>
      isNumeric ? [row[column] ?? ""] : pen.wrapped(row[column] ?? "", width),
    )
    const height = 12 * Math.max(...cells.map(({ length }) => length)) + 5
    if (pen.y - height < BOTTOM) {
      pen.turn()
      headLine()
    }
    cells.forEach((lines, column) => {
      const { at = MARGIN, isNumeric = false } = places[column] ?? {}
      lines.forEach((line, down) => pen.text(pen.page, line, at, pen.y - 12 * (down + 1), { isRight: isNumeric }))
    })
    pen.y -= height
    pen.line(pen.y)
  }
  pen.y -= 4
}

/** Never alone on a page without the last of them. */
function sums(pen: Pen, { totals }: Paper) {
  if (pen.y - totals.length * 16 - 12 < BOTTOM) pen.turn()
  for (const { name, value, isStrong = false } of totals) {
    pen.y -= 16
    const look = { size: isStrong ? 11 : 9, isBold: isStrong }
    pen.text(pen.page, name, MARGIN + INNER / 2 - 40, pen.y, look)
    pen.text(pen.page, value, RIGHT, pen.y, { ...look, isRight: true })
  }
  pen.y -= 18
}
