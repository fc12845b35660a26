/** What has been said so far, and what it has cost together. */
import { Trash2 } from "lucide-react"
import { Button } from "../../components/button.tsx"
import { Money } from "../../components/money.tsx"
import { useFormat } from "../../i18n/format.ts"
import { Answer } from "./answer.tsx"
import type { Conversation } from "./conversation.ts"
import { useFollow } from "./follow.ts"
import { useReceipts } from "./receipts.ts"
import { usePlaygroundText } from "./text.ts"

interface SaidProps {
  readonly conversation: Conversation
  /** Asks again, in the place of the exchange of this number. */
  readonly retry: (question: string, instead: number) => void
}

export function Said({ conversation: { exchanges, busy, clear }, retry }: SaidProps) {
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
            retry={busy ? undefined : () => retry(exchange.question, exchange.id)}
          />
        ))}
      </ol>
      <p className="visually-hidden" role="status">
        {busy ? text.answering : text.answered}
      </p>
      <div className="playground-sum">
        <dl>
          <dt>{text.sum}</dt>
          <dd>
            <Money micro={receipts.chargeMicro} />
          </dd>
          <dd>{text.calls(format.number(receipts.calls), receipts.calls === 1)}</dd>
        </dl>
        <Button kind="quiet" size="small" icon={<Trash2 />} onClick={clear}>
          {text.clear}
        </Button>
      </div>
    </>
  )
}
