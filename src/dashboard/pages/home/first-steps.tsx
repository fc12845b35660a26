/** What a new account still has to do, until all of it is done. */
import { useQuery } from "@tanstack/react-query"
import { ChevronRight, Circle, CircleCheck } from "lucide-react"
import { Link } from "wouter"
import { keysQuery, topUpsQuery } from "../../api/queries.ts"
import { Card } from "../../components/card.tsx"
import { useAccount } from "../../shell/session.tsx"
import { recentCallsQuery } from "./data.ts"
import { useHomeText } from "./text.ts"

export function FirstSteps() {
  const text = useHomeText()
  const account = useAccount()
  const keys = useQuery(keysQuery)
  const topUps = useQuery(topUpsQuery)
  const calls = useQuery(recentCallsQuery)
  if (keys.data === undefined || topUps.data === undefined || calls.data === undefined) return null
  const steps = [
    {
      to: "/wallet",
      title: text.steps.topUp,
      hint: text.steps.topUpHint,
      done: account.balance_micro > 0 || topUps.data.some(({ status }) => status === "paid"),
    },
    { to: "/keys", title: text.steps.key, hint: text.steps.keyHint, done: keys.data.length > 0 },
    { to: "/quick-start", title: text.steps.call, hint: text.steps.callHint, done: calls.data.length > 0 },
  ]
  if (steps.every(({ done }) => done)) return null
  return (
    <Card title={text.firstSteps} flush>
      <ol className="first-steps">
        {steps.map(({ to, title, hint, done }) => (
          <li key={to} className={done ? "is-done" : undefined}>
            <Link href={to}>
              {done ? <CircleCheck aria-hidden="true" /> : <Circle aria-hidden="true" />}
              <span className="first-step-words">
                <span>
                  {title}
                  {done && <span className="visually-hidden"> ({text.done})</span>}
                </span>
                <span className="first-step-hint">{hint}</span>
              </span>
              <ChevronRight aria-hidden="true" />
            </Link>
          </li>
        ))}
      </ol>
    </Card>
  )
}
