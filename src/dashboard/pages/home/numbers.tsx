/** The account in four numbers. */
import { useQuery } from "@tanstack/react-query"
import { Stat, Stats } from "../../components/card.tsx"
import { ErrorState } from "../../components/error-state.tsx"
import { Money } from "../../components/money.tsx"
import { Skeleton } from "../../components/skeleton.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useAccount } from "../../shell/session.tsx"
import { summaryQuery } from "./data.ts"
import { useHomeText } from "./text.ts"

/** Longer than this nobody plans. */
const LONGEST_DAYS = 365

export function Numbers() {
  const text = useHomeText()
  const format = useFormat()
  // The balance follows each event; the sums are asked again.
  const { balance_micro: balance, held_micro: held } = useAccount()
  const { data: summary, error, refetch } = useQuery(summaryQuery)
  if (summary === undefined && error) return <ErrorState error={error} retry={refetch} />
  return (
    <Stats>
      <Stat label={text.available} note={held === 0 ? text.nothingHeld : text.held(format.rupiah(held))}>
        <Money micro={BigInt(balance) - BigInt(held)} />
      </Stat>
      <Stat
        label={text.today}
        note={summary && text.calls(format.number(summary.calls_today), summary.calls_today === 1)}
      >
        {summary === undefined ? <Skeleton /> : <Money micro={summary.spent_today_micro} />}
      </Stat>
      <Stat label={text.month} note={format.month(Date.now())}>
        {summary === undefined ? <Skeleton /> : <Money micro={summary.spent_month_micro} />}
      </Stat>
      {summary === undefined ? (
        <Stat label={text.daysLeft}>
          <Skeleton />
        </Stat>
      ) : (
        <DaysLeft days={summary.days_left} />
      )}
    </Stats>
  )
}

function DaysLeft({ days }: { readonly days: number | null }) {
  const text = useHomeText()
  const format = useFormat()
  if (days === null) {
    return (
      <Stat label={text.daysLeft} note={text.noPace}>
        –
      </Stat>
    )
  }
  const whole = Math.floor(days)
  return (
    <Stat label={text.daysLeft} note={text.pace}>
      {whole > LONGEST_DAYS ? text.longer : text.days(whole === 0 ? text.underOne : format.number(whole), whole <= 1)}
    </Stat>
  )
}
