/** The end of a model's sale, and its return. */
import { useState } from "react"
import { api } from "../../../api/client.ts"
import { told } from "../../../api/failure.ts"
import { Button } from "../../../components/button.tsx"
import { Card } from "../../../components/card.tsx"
import { useFormat } from "../../../i18n/format.ts"
import { ActDialog } from "../act-dialog.tsx"
import type { OperatorModel } from "../models/data.ts"
import { RetireDialog } from "./retire-dialog.tsx"
import { useModelText } from "./text.ts"

interface RetirementProps {
  readonly model: OperatorModel
  readonly all: readonly OperatorModel[]
}

export function Retirement({ model, all }: RetirementProps) {
  const text = useModelText()
  const format = useFormat()
  const [open, setOpen] = useState(false)
  const { retirement, status } = model
  const close = () => setOpen(false)
  const say = status === "retired" ? text.gone : text.retired
  return (
    <Card
      title={text.retirement}
      action={
        <Button size="small" onClick={() => setOpen(true)}>
          {retirement === null ? text.retire : text.restore}
        </Button>
      }
    >
      <p className="operator-hint">
        {retirement === null ? text.retireText : say(retirement.target, format.dateTime(retirement.until))}
      </p>
      {retirement === null ? (
        <RetireDialog model={model} all={all} open={open} onClose={close} />
      ) : (
        <ActDialog
          open={open}
          title={text.restoreTitle(model.display_name)}
          act={text.restore}
          done={text.restoreDone}
          run={() => told(api.operator.models({ model: encodeURIComponent(model.model) }).restore.post())}
          onClose={close}
        >
          <p>{text.restoreText}</p>
        </ActDialog>
      )}
    </Card>
  )
}
