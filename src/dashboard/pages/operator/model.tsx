/** One model: its prices over time, its settings, and whether it is on sale. */
import { useQuery } from "@tanstack/react-query"
import { SearchX } from "lucide-react"
import { useState } from "react"
import { Link, useParams } from "wouter"
import { api, unwrap } from "../../api/client.ts"
import { ButtonLink, CopyButton } from "../../components/button.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { EmptyState, ErrorState, Skeleton } from "../../components/feedback.tsx"
import { Card, Facts } from "../../components/layout.tsx"
import { Money, Tag, type Tone } from "../../components/values.tsx"
import { useFormat } from "../../i18n/language.tsx"
import { ActDialog, useOperatorText } from "./act-dialog.tsx"
import {
  comingPrices,
  isMeant,
  modelsQuery,
  ModelTags,
  type OperatorModel,
  type Price,
  useModelText,
} from "./catalogue.tsx"
import { Changes } from "./changes.tsx"
import { OperatorPage, RoleButton } from "./frame.tsx"
import { PriceDialog, SettingsDialog, RetireDialog } from "./model-dialogs.tsx"

export default function ModelPage() {
  const text = useModelText()
  const { model: asked = "" } = useParams()
  const { data: all, error, refetch } = useQuery(modelsQuery)
  const model = all?.find((one) => isMeant(one.model, asked))
  if (all !== undefined && model !== undefined) {
    return (
      <OperatorPage title={model.display_name} intro={<Identity model={model} />} wide={false}>
        <Prices model={model} />
        <Settings model={model} />
        <Retirement model={model} all={all} />
      </OperatorPage>
    )
  }
  return (
    <OperatorPage key="unknown" title={text.title} wide={false}>
      {all !== undefined ? (
        <EmptyState
          icon={<SearchX />}
          title={text.unknown}
          action={<ButtonLink to="/operator/models">{text.toModels}</ButtonLink>}
        >
          {text.unknownHint}
        </EmptyState>
      ) : error ? (
        <ErrorState error={error} retry={refetch} />
      ) : (
        <Skeleton lines={8} />
      )}
    </OperatorPage>
  )
}

function Identity({ model }: { readonly model: OperatorModel }) {
  const text = useModelText()
  return (
    <span className="operator-identity">
      <ModelTags model={model} />
      <span>
        <code>{model.model}</code>
        <CopyButton text={model.model} what={text.modelId} />
      </span>
      <Link href={`/operator/audit?subject=${encodeURIComponent(model.model)}`}>{text.audit}</Link>
    </span>
  )
}

const TONES: Readonly<Record<Price["state"], Tone>> = { past: "neutral", current: "good", coming: "accent" }

/** A model's price versions, the newest first. Scheduled ones can be deleted. */
export function Prices({ model }: { readonly model: OperatorModel }) {
  const text = useModelText()
  const [scheduling, setScheduling] = useState(false)
  const [deleting, setDeleting] = useState<Price>()
  return (
    <Card
      title={text.prices}
      flush
      action={
        <RoleButton role="finance" kind="primary" size="small" onClick={() => setScheduling(true)}>
          {text.schedule}
        </RoleButton>
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
      {scheduling && <PriceDialog model={model} onClose={() => setScheduling(false)} />}
      {deleting !== undefined && (
        <DeleteDialog model={model.model} price={deleting} onClose={() => setDeleting(undefined)} />
      )}
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
        <RoleButton role="finance" size="small" onClick={() => onDelete(price)}>
          {text.delete}
        </RoleButton>
      ) : (
        "–"
      ),
  }
  return [
    {
      id: "from",
      head: text.priceColumns.from,
      names: true,
      cell: ({ effective_at: from }) => format.moment(from),
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
  readonly price: Price
  readonly onClose: () => void
}

function DeleteDialog({ model, price, onClose }: DeleteDialogProps) {
  const text = useModelText()
  const format = useFormat()
  return (
    <ActDialog
      title={text.deleteTitle(format.dateTime(price.effective_at))}
      act={text.deleteAct}
      done={text.deleteDone}
      danger
      run={() =>
        unwrap(
          api.operator
            .models({ model: encodeURIComponent(model) })
            .prices({ id: price.id ?? 0 })
            .delete(),
        )
      }
      onClose={onClose}
    >
      <Changes before={{ ...price, state: undefined }} after={null} />
      <p>{text.deleteText}</p>
      <p className="operator-hint">{text.deleteLate}</p>
    </ActDialog>
  )
}

/** A model's name, limits and backend. */
export function Settings({ model }: { readonly model: OperatorModel }) {
  const text = useModelText()
  const { fields } = useOperatorText()
  const format = useFormat()
  const [editing, setEditing] = useState(false)
  const { upstreams, fallback, pass, edited, context_window: context } = model
  return (
    <Card
      title={text.settings}
      action={
        <RoleButton role="finance" size="small" onClick={() => setEditing(true)}>
          {text.edit}
        </RoleButton>
      }
    >
      <Facts
        facts={[
          { name: fields.display_name, value: model.display_name },
          { name: fields.tier, value: model.tier },
          { name: fields.max_concurrency, value: format.number(model.max_concurrency) },
          { name: fields.fallback, value: fallback.length === 0 ? text.noFallback : fallback.join(" → ") },
          { name: fields.pass, value: pass.length === 0 ? text.noPass : pass.join(", ") },
          {
            name: text.upstream,
            value: upstreams.map((one) => `${one.provider} · ${one.format} · ${one.model}`).join(", "),
          },
          { name: text.endpoints, value: model.endpoints.join(", ") },
          { name: text.context, value: context === null ? text.unpublished : text.tokens(format.number(context)) },
          { name: text.maxOutput, value: text.tokens(format.number(model.max_output_tokens)) },
          { name: text.edited, value: edited.length === 0 ? text.editedNone : edited.join(", ") },
        ]}
      />
      {editing && <SettingsDialog model={model} onClose={() => setEditing(false)} />}
    </Card>
  )
}

interface RetirementProps {
  readonly model: OperatorModel
  readonly all: readonly OperatorModel[]
}

/** Whether a model is retired, and the actions that retire and restore it. */
export function Retirement({ model, all }: RetirementProps) {
  const text = useModelText()
  const format = useFormat()
  const [open, setOpen] = useState<"retire" | "restore">()
  const { retirement, status } = model
  const close = () => setOpen(undefined)
  const say = status === "retired" ? text.gone : text.retired
  return (
    <Card
      title={text.retirement}
      action={
        <RoleButton role="finance" size="small" onClick={() => setOpen(retirement === null ? "retire" : "restore")}>
          {retirement === null ? text.retire : text.restore}
        </RoleButton>
      }
    >
      <p className="operator-hint">
        {retirement === null ? text.retireText : say(retirement.target, format.dateTime(retirement.until))}
      </p>
      {open === "retire" && <RetireDialog model={model} all={all} onClose={close} />}
      {open === "restore" && (
        <ActDialog
          title={text.restoreTitle(model.display_name)}
          act={text.restore}
          done={text.restoreDone}
          run={() => unwrap(api.operator.models({ model: encodeURIComponent(model.model) }).restore.post())}
          onClose={close}
        >
          <p>{text.restoreText}</p>
        </ActDialog>
      )}
    </Card>
  )
}
