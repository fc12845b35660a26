/** One exchange: what was asked, what came back, how it ended, and what it cost. */
import { RotateCw } from "lucide-react"
import { ApiFailure } from "../../api/failure.ts"
import { Button, ButtonLink } from "../../components/button.tsx"
import { ErrorState } from "../../components/error-state.tsx"
import { Spinner } from "../../components/spinner.tsx"
import type { Exchange } from "./conversation.ts"
import { Cost } from "./cost.tsx"
import { Prose } from "./prose.tsx"
import type { Receipts } from "./receipts.ts"
import { usePlaygroundText } from "./text.ts"

interface AnswerProps {
  readonly exchange: Exchange
  readonly receipts: Receipts
  /** Sends it again; undefined while something else is under way. */
  readonly retry: (() => void) | undefined
}

export function Answer({ exchange, receipts, retry }: AnswerProps) {
  const text = usePlaygroundText()
  const { question, model, thinking, answer, state, requestId } = exchange
  return (
    <li className="exchange">
      <div className="exchange-question">
        <h3 className="visually-hidden">{text.you}</h3>
        <p className="prose-text">{question}</p>
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
        {isShort && (
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
