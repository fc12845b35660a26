/** Where somebody lands: what there is, what it goes to, and what to do next. Follows the account live. */
import { useQuery } from "@tanstack/react-query"
import { Activity } from "lucide-react"
import { lazy, Suspense } from "react"
import { ButtonLink } from "../../components/button.tsx"
import { Card } from "../../components/card.tsx"
import { Page } from "../../components/page.tsx"
import { EmptyState } from "../../components/empty-state.tsx"
import { ErrorState } from "../../components/error-state.tsx"
import { Skeleton } from "../../components/skeleton.tsx"
import { dayIn } from "../../i18n/days.ts"
import { useFormat } from "../../i18n/format.ts"
import { useAccount } from "../../shell/session.tsx"
import { type Day, daysQuery } from "./data.ts"
import { FirstSteps } from "./first-steps.tsx"
import { Numbers } from "./numbers.tsx"
import { RecentCalls } from "./recent-calls.tsx"
import { useHomeText } from "./text.ts"

const Chart = lazy(() => import("../../components/chart.tsx"))

export default function HomePage() {
  const text = useHomeText()
  const account = useAccount()
  const days = useQuery(daysQuery(dayIn(account.time_zone, Date.now())))
  return (
    <Page
      title={text.title}
      actions={
        <ButtonLink to="/wallet" kind="primary">
          {text.topUp}
        </ButtonLink>
      }
    >
      <FirstSteps />
      <Numbers />
      <Card title={text.spend}>
        {days.data !== undefined ? (
          <SpendChart days={days.data} />
        ) : days.error ? (
          <ErrorState error={days.error} retry={days.refetch} />
        ) : (
          <Skeleton lines={5} />
        )}
      </Card>
      <RecentCalls />
    </Page>
  )
}

function SpendChart({ days }: { readonly days: readonly Day[] }) {
  const text = useHomeText()
  const format = useFormat()
  if (days.every(({ chargeMicro }) => chargeMicro === 0)) {
    return <EmptyState icon={<Activity />} title={text.noSpend} />
  }
  return (
    <Suspense fallback={<Skeleton lines={5} />}>
      <Chart
        caption={text.spend}
        kind="bars"
        labels={days.map(({ day }) => format.day(`${day}T12:00:00Z`))}
        series={[{ name: text.spendSeries, values: days.map(({ chargeMicro }) => chargeMicro) }]}
        format={(micro) => format.rupiah(Math.round(micro))}
      />
    </Suspense>
  )
}
