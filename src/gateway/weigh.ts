/**
 * What a call's input likely comes to, and the most that it may (decisions §13.4), in tokens: the likely amount is what the
 * window and the tokens per minute go by, and the least of the hold where the files are there to be looked at; the most is
 * what is held if the balance can.
 */
import type { Soon } from "../../actors/kernel/actor.ts"
import type { Model } from "../catalogue/model.ts"
import type { ModelRequest, SentDocument } from "../language/request.ts"
import type { PdfReader } from "../pdf/reader.ts"
import { MOST_PAGES, PAGE_TOKENS } from "../wire/estimate/media.ts"
import type { Calibration, EstimateFactors } from "./estimate-factors.ts"
import type { Understood } from "./understand.ts"

export interface InputWeight {
  readonly likely: number
  /** Infinity where only the window bounds it. */
  readonly most: number
  /** What has to be held in any case: the likely amount, or Infinity with a document that only the backend sees. */
  readonly least: number
  /** The parts of `likely` before any factor. */
  readonly texts: number
  readonly documents: number
}

/** `request.inputTokens` is what it likely comes to. */
export interface Weighed extends Understood {
  readonly weight: InputWeight
}

export interface WeighTerms {
  readonly request: ModelRequest
  readonly model: Model
  readonly accountId: string
  /** Whether the account could pay for so many tokens now: for nobody else a file is read. */
  readonly paysFor: (tokens: number) => Promise<boolean>
}

interface Ports {
  readonly calibration: Calibration
  readonly factors: EstimateFactors
  readonly pdfs: PdfReader
}

/** A page as an image alone, and how many bytes of its strings make a token: one for each letter, or two. */
const IMAGE_OF_PAGE_TOKENS = 1_500
const TEXT_BYTES_PER_TOKEN = 4
/** A page in the smallest print, or whatever else a backend finds on one. */
const MOST_OF_PAGE_TOKENS = 12_000
/** More PDFs in one call count by their size. */
const MOST_READ = 20

/** Tokens, of all prompts together; null where it is not known. */
export const windowOf = ({ contextWindow }: Model, { prompts = 1 }: Pick<ModelRequest, "prompts">): number | null =>
  contextWindow === null ? null : contextWindow * prompts

/** At once where no document is sent. */
export function weigh(terms: WeighTerms, ports: Ports): Soon<InputWeight> {
  const { request, model, accountId } = terms
  const sent = request.media?.documents ?? NONE
  if (sent.length > 0) return weighDocuments(terms, ports, sent)
  return weighed(terms, ports, ports.factors.known(accountId, model.id), sent, sent)
}

const NONE: readonly SentDocument[] = []

async function weighDocuments(terms: WeighTerms, ports: Ports, sent: readonly SentDocument[]): Promise<InputWeight> {
  const { model, accountId, paysFor } = terms
  const factors = await ports.factors.read(accountId, model.id)
  const reads = sent.some(({ pdf }) => pdf !== undefined) && (await paysFor(PAGE_TOKENS))
  const read = await Promise.all(
    sent.map(async (one, place) => (reads && place < MOST_READ ? await readDocument(one, ports.pdfs, accountId) : one)),
  )
  return weighed(terms, ports, factors, sent, read)
}

/** `read`: the same documents, with what was found in them. */
function weighed(
  { request, model }: WeighTerms,
  ports: Ports,
  factors: ReturnType<EstimateFactors["known"]>,
  sent: readonly SentDocument[],
  read: readonly SentDocument[],
): InputWeight {
  const { media, inputTokens } = request
  const texts = inputTokens - Math.ceil(sum(sent, likelyOf))
  const documents = sum(read, likelyOf)
  const corrected = texts * ports.calibration.factor(model.id) * factors.texts
  const estimate = Math.ceil(corrected + documents * factors.documents)
  // Neither a factor nor a guess says that an input is too large; what was counted does.
  const counted = texts + sum(read, (one) => (one.known ? one.likely : 0))
  const contextWindow = windowOf(model, request)
  const likely = contextWindow !== null && counted <= contextWindow ? Math.min(estimate, contextWindow) : estimate
  const most = Math.ceil(corrected + (media?.spareTokens ?? 0) + sum(read, (one) => one.most))
  const least = sent.some(({ remote }) => remote === true) ? Infinity : likely
  return { likely, most: Math.max(likely, most), least, texts, documents }
}

async function readDocument(sent: SentDocument, pdfs: PdfReader, accountId: string): Promise<SentDocument> {
  if (sent.pdf === undefined) return sent
  const reading = await pdfs.read(sent.pdf, accountId)
  if (reading === undefined) return sent
  if (reading === "endless") return { likely: MOST_PAGES * PAGE_TOKENS, most: Infinity, known: false }
  const pages = Math.min(reading.pages, MOST_PAGES)
  const { textBytes } = reading
  if (textBytes === undefined) return { likely: pages * PAGE_TOKENS, most: Infinity, known: true }
  const asShown = pages * IMAGE_OF_PAGE_TOKENS + textBytes / TEXT_BYTES_PER_TOKEN
  return { likely: Math.max(pages * PAGE_TOKENS, asShown), most: pages * MOST_OF_PAGE_TOKENS + textBytes, known: true }
}

const likelyOf = ({ likely }: SentDocument): number => likely

function sum(documents: readonly SentDocument[], count: (document: SentDocument) => number): number {
  let all = 0
  for (const document of documents) all += count(document)
  return all
}
