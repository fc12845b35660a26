/** A model's price versions, the newest first; those to come can still be taken back. */
import { useState } from "react"
import { api } from "../../../api/client.ts"
import { told } from "../../../api/failure.ts"
import { Button } from "../../../components/button.tsx"
import { Card } from "../../../components/card.tsx"
import { type Column, DataTable } from "../../../components/data-table.tsx"
import { Money } from "../../../components/money.tsx"
import { Tag, type Tone } from "../../../components/tag.tsx"
import { useFormat } from "../../../i18n/format.ts"
import { ActDialog } from "../act-dialog.tsx"
import { Changes } from "../changes.tsx"
import { comingPrices, type OperatorModel, type Price } from "../models/data.ts"
import { useOperatorText } from "../text.ts"
import { PriceDialog } from "./price-dialog.tsx"
import { useModelText } from "./text.ts"

const TONES: Readonly<Record<Price["state"], Tone>> = { past: "neutral", current: "good", coming: "accent" }

export function Prices({ model }: { readonly model: OperatorModel }) {
  const text = useModelText()
  const [scheduling, setScheduling] = useState(false)
  const [deleting, setDeleting] = useState<Price>()
  return (
    <Card
      title={text.prices}
      flush
      action={
        <Button kind="primary" size="small" onClick={() => setScheduling(true)}>
          {text.schedule}
        </Button>
      }
    >
      <DataTable
        caption={text.prices}
        columns={useColumns(model, setDeleting)}
        rows={model.prices.toReversed()}
        rowKey={({ id }) => String(id)}
        empty={text.prices}
      />
      <p className="operator-foot">{text.pricesHint}</p>
      <PriceDialog model={model} open={scheduling} onClose={() => setScheduling(false)} />
      <DeleteDialog model={model.model} price={deleting} onClose={() => setDeleting(undefined)} />
    </Card>
  )
}

function useColumns(model: OperatorModel, onDelete: (price: Price) => void): readonly Column<Price>[] {
  const text = useModelText()
  const { rates } = useOperatorText()
  const format = useFormat()
  const rate = (name: keyof typeof rates): Column<Price> => ({
    id: name,
    head: rates[name],
    numeric: true,
    cell: (price) => <Money micro={BigInt(price[name]) * 1_000_000n} />,
  })
  const action: Column<Price> = {
    id: "action",
    head: text.priceColumns.action,
    cell: (price) =>
      price.state === "coming" ? (
        <Button size="small" onClick={() => onDelete(price)}>
          {text.delete}
        </Button>
      ) : (
        "–"
      ),
  }
  return [
    {
      id: "from",
      head: text.priceColumns.from,
      names: true,
      cell: ({ effective_at: from }) => `${format.date(from)} ${format.time(from)}`,
    },
    {
      id: "state",
      head: text.priceColumns.state,
      cell: ({ state }) => <Tag tone={TONES[state]}>{text.priceStates[state]}</Tag>,
    },
    rate("input_micro"),
    rate("output_micro"),
    rate("cache_read_micro"),
    rate("cache_write_micro"),
    ...(comingPrices(model).length > 0 ? [action] : []),
  ]
}

interface DeleteDialogProps {
  readonly model: string
  readonly price: Price | undefined
  readonly onClose: () => void
}

function DeleteDialog({ model, price, onClose }: DeleteDialogProps) {
  const text = useModelText()
  const format = useFormat()
  const at = price?.effective_at ?? 0
  return (
    <ActDialog
      open={price !== undefined}
      title={text.deleteTitle(format.dateTime(at))}
      act={text.deleteAct}
      done={text.deleteDone}
      danger
      run={() =>
        told(
          api.operator
            .models({ model: encodeURIComponent(model) })
            .prices({ id: price?.id ?? 0 })
            .delete(),
        )
      }
      onClose={onClose}
    >
      {price !== undefined && <Changes before={{ ...price, state: undefined }} after={null} />}
      <p>{text.deleteText}</p>
      <p className="operator-hint">{text.deleteLate}</p>
    </ActDialog>
  )
}
