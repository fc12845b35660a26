/** What a new account still has to do, until all of it is done. */
import { useQuery } from "@tanstack/react-query"
import { ChevronRight, Circle, CircleCheck } from "lucide-react"
import { Link } from "wouter"
import { Card } from "../../components/card.tsx"
import { summaryQuery } from "./data.ts"
import { useHomeText } from "./text.ts"

export function FirstSteps() {
  const text = useHomeText()
  const { data: summary } = useQuery(summaryQuery)
  if (summary === undefined) return null
  const { topped_up: toppedUp, key_made: keyMade, call_made: callMade } = summary.first_steps
  const steps = [
    { to: "/wallet", title: text.steps.topUp, hint: text.steps.topUpHint, done: toppedUp },
    { to: "/keys", title: text.steps.key, hint: text.steps.keyHint, done: keyMade },
    { to: "/quick-start", title: text.steps.call, hint: text.steps.callHint, done: callMade },
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
