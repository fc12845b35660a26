/** A run: what its calls may spend together, have spent, and on which models. It follows calls live. */
import { queryOptions, useQuery } from "@tanstack/react-query"
import { X } from "lucide-react"
import { api, unwrap } from "../../api/client.ts"
import { Button, ButtonLink } from "../../components/button.tsx"
import { ErrorState, Skeleton } from "../../components/feedback.tsx"
import { Card, Facts } from "../../components/layout.tsx"
import { Money } from "../../components/values.tsx"
import { useFormat } from "../../i18n/format.ts"
import { texts } from "../../i18n/language.tsx"
import type { AddressedView } from "./address.ts"
import { useKeyName } from "./data.ts"

const useRunText = texts({
  id: {
    title: "Run",
    left: "Sisa anggaran",
    spent: "Terpakai",
    of: (spent: string, budget: string) => `${spent} dari ${budget}`,
    calls: "Panggilan",
    ends: "Berakhir",
    ended: (when: string) => `${when}, sudah berakhir`,
    key: "Kunci API",
    models: "Biaya per model",
    allCalls: "Lihat semua panggilannya",
    clear: "Tampilkan semua panggilan",
  },
  en: {
    title: "Run",
    left: "Left of the budget",
    spent: "Spent",
    of: (spent: string, budget: string) => `${spent} of ${budget}`,
    calls: "Calls",
    ends: "Ends",
    ended: (when: string) => `${when}, has ended`,
    key: "API key",
    models: "Cost by model",
    allCalls: "See all its calls",
    clear: "Show all calls",
  },
})

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
  return (
    <Card
      title={text.title}
      action={
        <Button size="small" icon={<X />} onClick={() => change({ run: undefined })}>
          {text.clear}
        </Button>
      }
    >
      <RunFacts id={id} />
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
