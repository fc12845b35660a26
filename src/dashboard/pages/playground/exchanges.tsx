/**
 * The exchanges of a conversation, each with its cost. Of Markdown they show what matters for reading an answer: fenced code
 * blocks, and code within a line.
 */
import { RotateCw, SquarePen } from "lucide-react"
import { useEffect, useRef } from "react"
import { Link } from "wouter"
import { ApiFailure } from "../../api/client.ts"
import { Button, ButtonLink, Spinner } from "../../components/button.tsx"
import { ErrorState } from "../../components/feedback.tsx"
import { CodeBlock } from "../../components/layout.tsx"
import { Money } from "../../components/values.tsx"
import { useFormat } from "../../i18n/language.tsx"
import { useMay } from "../../shell/session.tsx"
import { type Conversation, type Exchange, type Receipt, type Receipts, useReceipts } from "./conversation.tsx"
import type { Words } from "./stream.ts"
import { usePlaygroundText } from "./text.ts"

interface ExchangesProps {
  readonly conversation: Conversation
  /** Asks again; the new exchange replaces the one with this id. Undefined while nothing can be asked. */
  readonly retry: ((words: Words, instead: number) => void) | undefined
  readonly onNew: () => void
}

/** All exchanges, and their cost together. */
export function Exchanges({ conversation: { exchanges, busy }, retry, onNew }: ExchangesProps) {
  const text = usePlaygroundText()
  const format = useFormat()
  const receipts = useReceipts(exchanges)
  useFollow(exchanges, exchanges.at(-1)?.id)
  return (
    <>
      <ol className="exchanges">
        {exchanges.map((exchange) => (
          <Answer
            key={exchange.id}
            exchange={exchange}
            receipts={receipts}
            retry={busy ? undefined : retry && (() => retry(exchange, exchange.id))}
          />
        ))}
      </ol>
      <p className="visually-hidden" role="status">
        {/* A failure is an alert of its own. */}
        {busy ? text.answering : exchanges.at(-1)?.state === "failed" ? "" : text.answered}
      </p>
      <div className="playground-sum">
        <dl>
          <dt>{text.sum}</dt>
          <dd>
            <Money micro={receipts.chargeMicro} />
          </dd>
          <dd>{text.calls(format.number(receipts.calls), receipts.calls === 1)}</dd>
        </dl>
        <Button kind="quiet" size="small" icon={<SquarePen />} onClick={onNew}>
          {text.clear}
        </Button>
      </div>
    </>
  )
}

interface AnswerProps {
  readonly exchange: Exchange
  readonly receipts: Receipts
  /** Sends the question again; undefined while an answer is under way. */
  readonly retry: (() => void) | undefined
}

/** One exchange: the question, the answer, how it ended, and what it cost. */
function Answer({ exchange, receipts, retry }: AnswerProps) {
  const text = usePlaygroundText()
  const { question, images, model, thinking, answer, state, requestId } = exchange
  return (
    <li className="exchange">
      <div className="exchange-question">
        <h3 className="visually-hidden">{text.you}</h3>
        {images.length > 0 && (
          <ul className="playground-images">
            {images.map((url, index) => (
              // oxlint-disable-next-line react/no-array-index-key -- what was sent is not changed any more
              <li key={index}>
                <img src={url} alt={text.image(index + 1)} />
              </li>
            ))}
          </ul>
        )}
        {question !== "" && <p className="prose-text">{question}</p>}
      </div>
      <div className="exchange-answer">
        <h3>
          <code>{model}</code>
        </h3>
        {thinking !== "" && (
          <details className="exchange-thinking" open={state === "asking" && answer === ""}>
            <summary>{text.thinking}</summary>
            <p className="prose-text">{thinking}</p>
          </details>
        )}
        <Prose text={answer} />
        {state === "asking" && (
          <p className="exchange-note">
            <Spinner />
            {answer === "" && thinking === "" ? text.waiting : ""}
          </p>
        )}
        <Ending exchange={exchange} retry={retry} />
        {requestId && state !== "asking" && <Cost requestId={requestId} receipt={receipts.of.get(requestId)} />}
      </div>
    </li>
  )
}

function Ending({ exchange, retry }: Pick<AnswerProps, "exchange" | "retry">) {
  const text = usePlaygroundText()
  const may = useMay()
  const { state, answer, cutOff, requestId, failure } = exchange
  if (state === "asking") return null
  if (state === "stopped") return <p className="exchange-note">{requestId ? text.stopped : text.stoppedEarly}</p>
  if (state === "answered") {
    if (answer === "") return <p className="exchange-note">{text.nothing}</p>
    return cutOff ? <p className="exchange-note">{text.cutOff}</p> : null
  }
  const isShort = failure instanceof ApiFailure && failure.code === "billing.insufficient_balance"
  return (
    <>
      <ErrorState error={failure} />
      <div className="exchange-actions">
        {isShort && may("pay") && (
          <ButtonLink to="/wallet" size="small" kind="primary">
            {text.topUp}
          </ButtonLink>
        )}
        {retry !== undefined && (
          <Button size="small" icon={<RotateCw />} onClick={retry}>
            {text.retry}
          </Button>
        )}
      </div>
    </>
  )
}

interface CostProps {
  readonly requestId: string
  readonly receipt: { readonly data: Receipt | undefined; readonly error: Error | null } | undefined
}

/** The cost of one answer: tokens × rates of its usage record, and a link to the record. */
function Cost({ requestId, receipt }: CostProps) {
  const text = usePlaygroundText()
  return (
    <div className="exchange-cost">
      {receipt?.data !== undefined ? (
        <Charged receipt={receipt.data} />
      ) : (
        <p>{receipt?.error ? text.unknownCost : text.pending}</p>
      )}
      <Link href={`/usage?request=${encodeURIComponent(requestId)}`}>{text.inUsage}</Link>
    </div>
  )
}

function Charged({ receipt }: { readonly receipt: Receipt }) {
  const text = usePlaygroundText()
  const format = useFormat()
  const { rates, amounts } = receipt
  const buckets = [
    { name: "input", tokens: receipt.input_tokens, rate: rates.input_micro, amount: amounts.input_micro },
    {
      name: "cacheRead",
      tokens: receipt.cache_read_tokens,
      rate: rates.cache_read_micro,
      amount: amounts.cache_read_micro,
    },
    {
      name: "cacheWrite",
      tokens: receipt.cache_write_tokens,
      rate: rates.cache_write_micro,
      amount: amounts.cache_write_micro,
    },
    { name: "output", tokens: receipt.output_tokens, rate: rates.output_micro, amount: amounts.output_micro },
  ] as const
  if (receipt.charge_micro === 0) return <p>{text.free}</p>
  const input = receipt.input_tokens + receipt.cache_read_tokens + receipt.cache_write_tokens
  return (
    <>
      <p>
        <strong>
          <Money micro={receipt.charge_micro} />
        </strong>
      </p>
      <p>{text.tokens(format.number(input), format.number(receipt.output_tokens))}</p>
      <p>{format.duration(receipt.duration_ms)}</p>
      <details>
        <summary>{text.breakdown}</summary>
        <dl>
          {buckets
            .filter(({ tokens }) => tokens > 0)
            .map(({ name, tokens, rate, amount }) => (
              <div key={name}>
                <dt>{text.buckets[name]}</dt>
                <dd>
                  {format.number(tokens)} × {format.rupiah(rate, "exact")} = {format.rupiah(amount, "exact")}
                </dd>
              </div>
            ))}
        </dl>
      </details>
    </>
  )
}

/** A model's text, with code set apart. It is never interpreted as markup. */
function Prose({ text }: { readonly text: string }) {
  const words = usePlaygroundText()
  return piecesIn(text).map((piece, index) =>
    piece.type === "code" ? (
      // oxlint-disable-next-line react/no-array-index-key -- pieces are only ever added at the end
      <CodeBlock key={index} title={piece.language === "" ? words.code : piece.language} code={piece.text} />
    ) : (
      // oxlint-disable-next-line react/no-array-index-key -- as above
      <p key={index} className="prose-text">
        {codeIn(piece.text).map((part, at) =>
          // oxlint-disable-next-line react/no-array-index-key -- as above
          part.isCode ? <code key={at}>{part.text}</code> : part.text,
        )}
      </p>
    ),
  )
}

/** Pixels from the end of the page within which it still follows the answer. */
const NEAR = 160

const distance = () => document.documentElement.scrollHeight - scrollY - innerHeight

/**
 * Scrolls with an answer while its end is in sight, and stops when somebody scrolls back. `grown` changes whenever there is
 * more text; `begun` when a new exchange begins, which is then scrolled to.
 */
function useFollow(grown: unknown, begun: unknown): void {
  const there = useRef(true)
  useEffect(() => {
    const look = () => {
      there.current = distance() < NEAR
    }
    addEventListener("scroll", look, { passive: true })
    return () => removeEventListener("scroll", look)
  }, [])
  useEffect(() => {
    there.current = true
  }, [begun])
  useEffect(() => {
    if (there.current) scrollTo(0, document.documentElement.scrollHeight)
  }, [grown])
}

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
