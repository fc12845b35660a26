/**
 * How large a backend's answer can be: what is over it is broken or hostile. A backend may repeat what it was sent (the
 * responses format repeats instructions and tools in its first and last events), so the bounds grow with the request.
 */
export interface AnswerBounds {
  /** Of one event of a stream, in UTF-16 units. */
  readonly eventLength: number
  /** Of a whole stream, in bytes. */
  readonly streamBytes: number
  /** Of an answer in one piece, in bytes. */
  readonly replyBytes: number
}

export interface AnswerTerms {
  /** Of the client's request. */
  readonly requestBytes: number
  /** The answer limit that is forwarded, in tokens. */
  readonly answerLimit: number
  readonly choices: number
  /** The client asked for the likelihoods of tokens. */
  readonly logprobs: boolean
  /** Of the prompt, where the answers repeat it, each token with its likelihoods. */
  readonly echoedTokens?: number
  /** How many vectors the client asked for. */
  readonly vectors?: number
}

/** No format's event comes near this by itself. */
const BASE = 8 * 1024 * 1024
/** What one byte of the request can become in a repetition: `<` comes back as `\u003c` from encoders that are careful. */
const ESCAPED = 6
/** The first events and the last one repeat the request. */
const REPETITIONS = 3
/** Of what has to be in memory whole, whatever was asked for. */
const MOST = 256 * 1024 * 1024
/** What one token can take: several times the usual, with the envelope of an event of its own in a stream. */
const TOKEN = { reply: 64, stream: 2_048 }
/** The same with twenty candidates and their likelihoods each. */
const TOKEN_WITH_LOGPROBS = { reply: 4_096, stream: 16_384 }

/** Of 4,096 numbers in so many digits, or of more in base64. */
const VECTOR = 98_304

export function answerBounds(terms: AnswerTerms): AnswerBounds {
  const { requestBytes, answerLimit, choices, logprobs, echoedTokens = 0, vectors = 0 } = terms
  const tokens = answerLimit * choices + echoedTokens
  const token = logprobs ? TOKEN_WITH_LOGPROBS : TOKEN
  const repeated = BASE + ESCAPED * requestBytes
  return {
    eventLength: Math.min(MOST, repeated + token.reply * tokens),
    streamBytes: REPETITIONS * repeated + token.stream * tokens,
    replyBytes: Math.min(MOST, repeated + token.reply * tokens + VECTOR * vectors),
  }
}
