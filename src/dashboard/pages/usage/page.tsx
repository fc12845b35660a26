/** Where the money goes: sums over time, what they consist of, and every call with its receipt. Follows calls live. */
import { keepPreviousData, useQuery } from "@tanstack/react-query"
import { Download } from "lucide-react"
import { DownloadLink } from "../../components/button.tsx"
import { ErrorState } from "../../components/error-state.tsx"
import { Page } from "../../components/page.tsx"
import { canBeSummed, useView } from "./address.ts"
import { Breakdown } from "./breakdown.tsx"
import { CallDrawer } from "./call-drawer.tsx"
import { Calls } from "./calls.tsx"
import { ChartCard } from "./chart-card.tsx"
import { exportAddress, seriesQuery } from "./data.ts"
import { Filters } from "./filters.tsx"
import { Numbers } from "./numbers.tsx"
import { useUsageText } from "./text.ts"

export default function UsagePage() {
  const text = useUsageText()
  const addressed = useView()
  const { view } = addressed
  return (
    <Page
      title={text.title}
      intro={text.intro}
      actions={
        <DownloadLink href={exportAddress(view)} icon={<Download />}>
          {text.download}
        </DownloadLink>
      }
    >
      <Filters {...addressed} />
      {canBeSummed(view) && <Sums {...addressed} />}
      <Calls {...addressed} />
      <CallDrawer requestId={view.request} onClose={addressed.close} />
    </Page>
  )
}

function Sums({ view, change }: ReturnType<typeof useView>) {
  const { data, error, refetch } = useQuery({ ...seriesQuery(view), placeholderData: keepPreviousData })
  if (data === undefined && error) return <ErrorState error={error} retry={refetch} />
  return (
    <>
      <Numbers series={data} />
      <ChartCard view={view} change={change} series={data} />
      <Breakdown view={view} change={change} />
    </>
  )
}
