/**
 * Estimates a call's input tokens (decisions §13.4). The context window and the tokens per minute go by the likely number. The hold
 * covers at least `least`, and `most` where the balance allows it.
 */
import type { MaybePromise } from "../../actors/kernel/actor.ts"
import type { Model } from "../catalogue/model.ts"
import type { ModelRequest, SentDocument } from "../language/request.ts"
import type { PdfReader } from "../pdf/reader.ts"
import { MAX_PAGES, PAGE_TOKENS } from "../wire/estimate.ts"
import type { Calibration, EstimateFactors } from "./estimate-factors.ts"
import type { ParsedRequest } from "./parse-request.ts"

export interface InputEstimate {
  readonly likely: number
  /** Infinity where only the window bounds it. */
  readonly most: number
  /** The least that has to be held: the likely number, or Infinity with a document that only the backend sees. */
  readonly least: number
  /** The parts of `likely` before any factor. */
  readonly texts: number
  readonly documents: number
}

/** Everything that is known of a call before its admission. `request.inputTokens` is the likely number. */
export interface CallPlan extends ParsedRequest {
  readonly inputEstimate: InputEstimate
}

export interface InputEstimateTerms {
  readonly request: ModelRequest
  readonly model: Model
  readonly accountId: string
  /** Whether the account could pay for so many tokens now. Files are read only for an account that can. */
  readonly canAfford: (tokens: number) => Promise<boolean>
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
const MAX_OF_PAGE_TOKENS = 12_000
/** More PDFs in one call count by their size. */
const MAX_PDFS_READ = 20

/** Tokens, of all prompts together; null where it is not known. */
export const windowOf = ({ contextWindow }: Model, { prompts = 1 }: Pick<ModelRequest, "prompts">): number | null =>
  contextWindow === null ? null : contextWindow * prompts

/** At once where no document is sent. */
export function estimateInput(terms: InputEstimateTerms, ports: Ports): MaybePromise<InputEstimate> {
  const { request, model, accountId } = terms
  const sent = request.media?.documents ?? NO_DOCUMENTS
  if (sent.length > 0) return estimateDocuments(terms, ports, sent)
  return combineEstimates(terms, ports, ports.factors.known(accountId, model.id), sent, sent)
}

const NO_DOCUMENTS: readonly SentDocument[] = []

async function estimateDocuments(
  terms: InputEstimateTerms,
  ports: Ports,
  sent: readonly SentDocument[],
): Promise<InputEstimate> {
  const { model, accountId, canAfford } = terms
  const factors = await ports.factors.read(accountId, model.id)
  const reads = sent.some(({ pdf }) => pdf !== undefined) && (await canAfford(PAGE_TOKENS))
  const read = await Promise.all(
    sent.map(async (one, place) =>
      reads && place < MAX_PDFS_READ ? await readDocument(one, ports.pdfs, accountId) : one,
    ),
  )
  return combineEstimates(terms, ports, factors, sent, read)
}

/** `read`: the same documents, with what was found in them. */
function combineEstimates(
  { request, model }: InputEstimateTerms,
  ports: Ports,
  factors: ReturnType<EstimateFactors["known"]>,
  sent: readonly SentDocument[],
  read: readonly SentDocument[],
): InputEstimate {
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
  if (reading === "endless") return { likely: MAX_PAGES * PAGE_TOKENS, most: Infinity, known: false }
  const pages = Math.min(reading.pages, MAX_PAGES)
  const { textBytes } = reading
  if (textBytes === undefined) return { likely: pages * PAGE_TOKENS, most: Infinity, known: true }
  const asShown = pages * IMAGE_OF_PAGE_TOKENS + textBytes / TEXT_BYTES_PER_TOKEN
  return { likely: Math.max(pages * PAGE_TOKENS, asShown), most: pages * MAX_OF_PAGE_TOKENS + textBytes, known: true }
}

const likelyOf = ({ likely }: SentDocument): number => likely

function sum(documents: readonly SentDocument[], count: (document: SentDocument) => number): number {
  let all = 0
  for (const document of documents) all += count(document)
  return all
}
