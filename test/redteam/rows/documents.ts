/** Documents and images that are far more than they look: M4. */
import type { Arena } from "../lib/arena.ts"
import { type Attacker, rp } from "../lib/attacker.ts"
import { onePageInName, scan, understated } from "../lib/pdf.ts"
import type { Finding, Row } from "../lib/row.ts"

const MODEL = "claude-opus-5-5"
const COUNTED = 900_000
const RATE = 67_200

type Source = { readonly type: string; readonly [field: string]: string }

/** A document's block, or those of images. */
interface Sent {
  readonly source: Source
  /** So many images in place of a document. */
  readonly images?: number
  /** Text that the backend reads beside it. */
  readonly context?: string
}

const inline = (file: Buffer): Source => ({
  type: "base64",
  media_type: "application/pdf",
  data: file.toString("base64"),
})

/** One pixel by its first bytes; decoders see a frame of 2,000 by 2,000. */
const picture: Source = {
  type: "base64",
  media_type: "image/gif",
  data: Buffer.from(
    `GIF89a\x01\0\x01\0\0\0\0,\0\0\0\0\xd0\x07\xd0\x07\0\x02\x01\0\0;${"\0".repeat(8)}`,
    "latin1",
  ).toString("base64"),
}

const blocksOf = ({ images, ...sent }: Sent) =>
  images === undefined
    ? [{ type: "document", ...sent }]
    : Array.from({ length: images }, () => ({ type: "image", source: sent.source }))

const body = (mark: string, sent: Sent) => ({
  model: MODEL,
  max_tokens: 16,
  messages: [
    {
      role: "user",
      content: [...blocksOf(sent), { type: "text", text: mark }],
    },
  ],
})

/** So many at once; what they were worth, and what was paid for them. */
async function wave(attacker: Attacker, sent: Sent, calls: number) {
  const mark = attacker.plays({ counts: { input: COUNTED, output: 5 } })
  const before = await attacker.balanceMicro()
  const answers = await Promise.all(Array.from({ length: calls }, () => attacker.call("messages", body(mark, sent))))
  const paid = before - (await attacker.balanceMicro())
  const answered = answers.filter(({ ended }) => ended).length
  const worth = answered * (COUNTED * RATE + 5 * 336_000)
  const refusal = answers.find(({ status }) => status !== 200)
  return { answered, paid, lost: worth - paid, code: refusal?.code ?? "" }
}

interface Trick extends Sent {
  readonly tried: string
  /** It looks as small as an honest file, so that it may work until it was counted. */
  readonly once?: boolean
}

async function trick(arena: Arena, { tried, once = false, ...sent }: Trick, calls: number): Promise<Finding> {
  const attacker = await arena.attacker(10_000)
  const waves: string[] = []
  let losses = 0
  for (let n = 0; n < 3; n++) {
    if (n > 0) await attacker.topUp(10_000)
    const { answered, paid, lost, code } = await wave(attacker, sent, calls)
    if (lost > 0) losses++
    const refusal = code === "" ? "" : `, then ${code}`
    waves.push(`${answered} answered, paid ${rp(paid)}, ${rp(lost)} given away${refusal}`)
  }
  return {
    tried: `${tried}: ${calls} at once on Rp 10,000, and twice again after another Rp 10,000`,
    seen: waves.join("; again: "),
    held: losses <= (once ? 1 : 0),
  }
}

async function honest(arena: Arena): Promise<Finding> {
  const attacker = await arena.attacker(10_000)
  const mark = attacker.plays({ counts: { input: 5 * 3_000, output: 5 } })
  const { status, code } = await attacker.call("messages", body(mark, { source: inline(scan(5, 2_000_000)) }))
  return { tried: "an honest scan of 10 MB and 5 pages on Rp 10,000", seen: `${code ?? status}`, held: status === 200 }
}

export const documentsRows: readonly Row[] = [
  {
    id: "M4",
    wanted: "a document costs what it counts, and no trick works twice",
    play: async (arena, { full }) => {
      const calls = full ? 20 : 4
      const address: Source = { type: "url", url: "https://example.com/report.pdf" }
      return [
        await trick(arena, { tried: "a document behind an address", source: address }, calls),
        await trick(
          arena,
          { tried: "3 MB that name one page", source: inline(onePageInName(3_000_000)), once: true },
          calls,
        ),
        await trick(arena, { tried: "a scan of one page", source: inline(scan(1, 200_000)), once: true }, calls),
        await trick(
          arena,
          { tried: "300 pages, of which the tree has one", source: inline(understated(300)), once: true },
          calls,
        ),
        await trick(
          arena,
          {
            tried: "one page with a context of 3 MB beside it",
            source: inline(onePageInName(0)),
            context: "Halo dunia. ".repeat(250_000),
          },
          calls,
        ),
        await trick(
          arena,
          { tried: "188 images of a pixel, as their first bytes say", source: picture, images: 188 },
          calls,
        ),
        await honest(arena),
      ]
    },
  },
]
