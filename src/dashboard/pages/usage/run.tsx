/** A run: what its calls may spend together, have spent, and on which models. It follows calls live. */
import { queryOptions, useQuery } from "@tanstack/react-query"
import { CircleStop, X } from "lucide-react"
import { useState } from "react"
import { api, unwrap } from "../../api/client.ts"
import { Button, ButtonLink } from "../../components/button.tsx"
import { ErrorState, Skeleton } from "../../components/feedback.tsx"
import { Card, Facts } from "../../components/layout.tsx"
import { EndRunDialog, useRunText } from "../../components/run.tsx"
import { Money } from "../../components/values.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useMay } from "../../shell/session.tsx"
import type { AddressedView } from "./address.ts"
import { useKeyName } from "./data.ts"

/** Under the name of sums, which are asked for again when a call has ended. */
const runQuery = (id: string) =>
  queryOptions({ queryKey: ["sums", "run", id], queryFn: () => unwrap(api.runs({ id }).get()) })

/** In the receipt of one of its calls. */
export function RunOfCall({ id }: { readonly id: string }) {
  const text = useRunText()
  return (
    <section>
      <RunFacts id={id} />
      <ButtonLink to={`/usage?run=${encodeURIComponent(id)}`}>{text.allCalls}</ButtonLink>
    </section>
  )
}

/** Above the list of its calls. */
export function RunCard({ id, change }: Pick<AddressedView, "change"> & { readonly id: string }) {
  const text = useRunText()
  const run = useQuery(runQuery(id)).data
  const mayEnd = useMay()("build")
  const [ending, setEnding] = useState(false)
  return (
    <Card
      title={text.title}
      action={
        <span className="usage-filtered">
          {mayEnd && run?.status === "open" && (
            <Button size="small" icon={<CircleStop />} onClick={() => setEnding(true)}>
              {text.endNow}
            </Button>
          )}
          <Button size="small" icon={<X />} onClick={() => change({ run: undefined })}>
            {text.clear}
          </Button>
        </span>
      }
    >
      <RunFacts id={id} />
      {ending && run !== undefined && <EndRunDialog run={run} onClose={() => setEnding(false)} />}
    </Card>
  )
}

function RunFacts({ id }: { readonly id: string }) {
  const text = useRunText()
  const format = useFormat()
  const keyName = useKeyName()
  const { data: run, error, refetch } = useQuery(runQuery(id))
  if (run === undefined) return error ? <ErrorState error={error} retry={refetch} /> : <Skeleton lines={4} />
  const ends = format.dateTime(run.ends_at)
  return (
    <>
      <Facts
        title={`${text.title} ${run.name}`}
        facts={[
          { name: text.left, value: <Money micro={run.remaining_micro} form="exact" /> },
          {
            name: text.spent,
            value: text.of(format.rupiah(run.spent_micro, "exact"), format.rupiah(run.budget_micro, "exact")),
          },
          { name: text.calls, value: format.number(run.calls) },
          { name: text.key, value: keyName(run.key_id) },
          { name: text.ends, value: run.status === "ended" ? text.ended(ends) : ends },
        ]}
      />
      {run.models.length > 0 && (
        <Facts
          title={text.models}
          facts={run.models.map(({ model, charge_micro: charge }) => ({
            name: model,
            value: <Money micro={charge} form="exact" />,
          }))}
        />
      )}
    </>
  )
}
