/**
 * Estimates a call's input tokens (decisions §13.4). The context window and the tokens per minute go by the likely number. The
 * hold covers at least `least`, and `most` where the balance allows it.
 *
 * Then how far one account's input was over its estimate, where the house had to bear it: by model, and for documents apart from
 * texts. Its next calls hold for as much more, so that what slipped through once does not do so again; the memory fades.
 * Kept in the database, for a restart or a neighbour would not know of it otherwise.
 */
import type { MaybePromise } from "../../actors/kernel/actor.ts"
import type { Clock } from "../../actors/kernel/clock.ts"
import type { Model } from "../catalogue/model.ts"
import type { ModelRequest, SentDocument } from "../language/request.ts"
import type { PdfReader } from "../pdf/reader.ts"
import { MAX_PAGES, PAGE_TOKENS } from "../wire/estimate.ts"

export interface InputEstimate {
  readonly likely: number
  /** Infinity where only the window bounds it. */
  readonly most: number
  /** The least that has to be held: the likely number, or Infinity with a document that only the backend sees. */
  readonly least: number
  /** The parts of `likely` before any factor; images are among the documents. */
  readonly texts: number
  readonly documents: number
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

/** At once where neither images nor documents are sent. */
export function estimateInput(terms: InputEstimateTerms, ports: Ports): MaybePromise<InputEstimate> {
  const { request, model, accountId } = terms
  if (request.media !== undefined) return estimateMedia(terms, ports, request.media.documents)
  return combineEstimates(terms, ports, ports.factors.known(accountId, model.id), NO_DOCUMENTS, NO_DOCUMENTS)
}

const NO_DOCUMENTS: readonly SentDocument[] = []

async function estimateMedia(
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
  { request, model, accountId }: InputEstimateTerms,
  ports: Ports,
  factors: ReturnType<EstimateFactors["known"]>,
  sent: readonly SentDocument[],
  read: readonly SentDocument[],
): InputEstimate {
  const { media, inputTokens } = request
  const likelyImages = media?.images.likely ?? 0
  const texts = inputTokens - Math.ceil(sum(sent, likelyOf) + likelyImages)
  const images = media !== undefined && !knowsDetail(model) ? media.images.whole : likelyImages
  const documents = sum(read, likelyOf) + images
  const corrected = texts * ports.calibration.factor(accountId, model.id) * factors.texts
  const estimate = Math.ceil(corrected + documents * factors.documents)
  // Neither a factor nor a guess says that an input is too large; what was counted does.
  const counted = texts + images + sum(read, (one) => (one.known ? one.likely : 0))
  const contextWindow = windowOf(model, request)
  const likely = contextWindow !== null && counted <= contextWindow ? Math.min(estimate, contextWindow) : estimate
  const most = Math.ceil(corrected + (media?.images.most ?? 0) + sum(read, (one) => one.most))
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

/** Whether all backends of the model can be told to read an image at a lower size. The other formats have no words for it. */
const knowsDetail = ({ upstreams }: Model): boolean =>
  upstreams.every(({ format }) => format === "chat" || format === "responses")

const likelyOf = ({ likely }: SentDocument): number => likely

function sum(documents: readonly SentDocument[], count: (document: SentDocument) => number): number {
  let all = 0
  for (const document of documents) all += count(document)
  return all
}

export type EstimatedPart = "texts" | "documents"

export interface EstimateFactor {
  readonly accountId: string
  readonly model: string
  readonly part: EstimatedPart
  readonly factor: number
  /** Milliseconds since the epoch. */
  readonly learntAt: number
}

export interface EstimateFactorStore {
  read(accountId: string): Promise<readonly EstimateFactor[]>
  /** One that is larger than what is there stands. */
  write(factor: EstimateFactor): Promise<void>
}

/** What the parts of an estimate are to be multiplied by; 1 unless the account's calls were absorbed. */
export type Factors = Readonly<Record<EstimatedPart, number>>

/** Of what is over 1, half is forgotten in a week. */
const HALF_LIFE_MS = 7 * 86_400_000
/** What another process has learnt is heard of within this time. */
const FRESH_MS = 30_000
const MAX_ACCOUNTS = 10_000
/** The estimator of texts is off by a part, never by a multiple. */
const LARGEST: Factors = { texts: 4, documents: 1_000 }

const UNCHANGED: Factors = { texts: 1, documents: 1 }

interface Known {
  readAt: number
  reading: Promise<void> | undefined
  readonly factors: Map<string, EstimateFactor>
}

export class EstimateFactors {
  readonly #clock: Clock
  readonly #store: EstimateFactorStore
  /** The account that was asked for last stands last. */
  readonly #accounts = new Map<string, Known>()

  constructor(clock: Clock, store: EstimateFactorStore) {
    this.#clock = clock
    this.#store = store
  }

  /** As far as it is known here and now. */
  known(accountId: string, model: string): Factors {
    const known = this.#of(accountId)
    if (!this.#isFresh(known)) void this.#refresh(accountId, known)
    if (known.factors.size === 0) return UNCHANGED
    const factor = (part: EstimatedPart) => this.#faded(known.factors.get(`${part} ${model}`))
    return { texts: factor("texts"), documents: factor("documents") }
  }

  /** As the database knows it; as far as it is known here where that does not answer. */
  async read(accountId: string, model: string): Promise<Factors> {
    await this.#refresh(accountId, this.#of(accountId))
    return this.known(accountId, model)
  }

  /** A part of an estimate came to `ratio` times what was estimated, and the house bore some of it. */
  learn(accountId: string, model: string, part: EstimatedPart, ratio: number): void {
    const { factors } = this.#of(accountId)
    const factor = Math.min(ratio, LARGEST[part])
    if (factor <= this.#faded(factors.get(`${part} ${model}`))) return
    const learnt = { accountId, model, part, factor, learntAt: this.#clock.now() }
    factors.set(`${part} ${model}`, learnt)
    this.#store.write(learnt).catch(() => {})
  }

  #of(accountId: string): Known {
    const known = this.#accounts.get(accountId) ?? { readAt: -Infinity, reading: undefined, factors: new Map() }
    this.#accounts.delete(accountId)
    this.#accounts.set(accountId, known)
    if (this.#accounts.size > MAX_ACCOUNTS) {
      const [oldest] = this.#accounts.keys()
      if (oldest !== undefined) this.#accounts.delete(oldest)
    }
    return known
  }

  #isFresh({ readAt }: Known): boolean {
    return this.#clock.monotonic() - readAt < FRESH_MS
  }

  #refresh(accountId: string, known: Known): Promise<void> {
    if (this.#isFresh(known)) return Promise.resolve()
    known.reading ??= this.#read(accountId, known).finally(() => (known.reading = undefined))
    return known.reading
  }

  async #read(accountId: string, known: Known): Promise<void> {
    try {
      for (const one of await this.#store.read(accountId)) {
        const key = `${one.part} ${one.model}`
        if (this.#faded(one) > this.#faded(known.factors.get(key))) known.factors.set(key, one)
      }
      known.readAt = this.#clock.monotonic()
    } catch {
      // The call goes on with what is known here.
    }
  }

  #faded(learnt: EstimateFactor | undefined): number {
    if (learnt === undefined) return 1
    const age = Math.max(0, this.#clock.now() - learnt.learntAt)
    return 1 + (learnt.factor - 1) * 0.5 ** (age / HALF_LIFE_MS)
  }
}

/**
 * How far the estimator of input tokens is off for each model, learnt from what backends count. Model families cut text
 * differently (one vendor's newest counts up to half more than another's), and an estimate that is under costs the house:
 * the hold is too small. Factors only raise; each process learns its own. Each account has a running mean of its own, and for all holds
 * the median of these: what one customer sends, on purpose or not, raises no other's estimates.
 */
export class Calibration {
  readonly #models = new Map<string, LearntRatios>()

  /** What an estimate of this account's for this model is to be multiplied by: 1 to 1.6. */
  factor(accountId: string, model: string): number {
    const learnt = this.#models.get(model)
    return Math.max(1, learnt?.median ?? 1, learnt?.means.get(accountId) ?? 1)
  }

  /** The estimate, before any factor, and what the backend counted of the same prompt. */
  learn(accountId: string, model: string, estimated: number, counted: number): void {
    // Short prompts say more of a backend's fixed additions than of its tokenizer.
    if (estimated < SHORTEST || counted <= 0) return
    const ratio = Math.min(LARGEST_RATIO, counted / estimated)
    const learnt = this.#models.get(model) ?? { means: new Map<string, number>(), median: 1, sinceSorted: 0 }
    this.#models.set(model, learnt)
    const { means } = learnt
    const mean = means.get(accountId)
    means.delete(accountId)
    means.set(accountId, mean === undefined ? ratio : mean + (ratio - mean) * WEIGHT)
    const [oldest = ""] = means.keys()
    if (means.size > MAX_MEANS) means.delete(oldest)
    if (++learnt.sinceSorted < means.size / SORTED_AT_ONCE) return
    learnt.sinceSorted = 0
    const sorted = Float64Array.from(means.values()).sort()
    learnt.median = sorted.length < 2 ? 1 : (sorted[Math.ceil(sorted.length / 2) - 1] ?? 1)
  }
}

interface LearntRatios {
  /** By account; the one that was learnt from last stands last. */
  readonly means: Map<string, number>
  /** Of two in the middle the lower one; 1 while there is one account alone. */
  median: number
  /** How often was learnt since the median was found. */
  sinceSorted: number
}

/** The means of so many accounts are sorted for each prompt: of more, for every second, third and so on. */
const SORTED_AT_ONCE = 16
const LARGEST_RATIO = 1.6
const SHORTEST = 500
/** Of the newest prompt in the running mean. */
const WEIGHT = 0.05
/** Accounts of a model that are remembered. */
const MAX_MEANS = 128
