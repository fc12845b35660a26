/** Payments that came and could not be credited, until somebody has seen to them. */
import { CircleCheck } from "lucide-react"
import { useState } from "react"
import { Link } from "wouter"
import { api } from "../../../api/client.ts"
import { told } from "../../../api/failure.ts"
import { Button } from "../../../components/button.tsx"
import { Card } from "../../../components/card.tsx"
import { type Column, DataTable } from "../../../components/data-table.tsx"
import { EmptyState } from "../../../components/empty-state.tsx"
import { Facts } from "../../../components/facts.tsx"
import { Switch } from "../../../components/switch.tsx"
import { Tag } from "../../../components/tag.tsx"
import { useFormat } from "../../../i18n/format.ts"
import { ActDialog } from "../act-dialog.tsx"
import { useParameter } from "../address.ts"
import { at, useList } from "../list.ts"
import { OperatorPage } from "../section.tsx"
import { useProblemsText } from "./text.ts"

const problemsPage = (resolved: "true" | "false", cursor: string | undefined) =>
  told(api.operator["payment-problems"].get({ query: { resolved, ...at(cursor) } }))
type Problem = Awaited<ReturnType<typeof problemsPage>>["data"][number]

export default function PaymentProblemsPage() {
  const text = useProblemsText()
  const [asked, setResolved] = useParameter("resolved")
  const [resolving, setResolving] = useState<Problem>()
  const resolved = asked === "true" ? "true" : "false"
  const { table } = useList(["payment-problems", resolved], (cursor) => problemsPage(resolved, cursor))
  return (
    <OperatorPage title={text.title} intro={text.intro}>
      <Switch
        label={text.all}
        checked={resolved === "true"}
        onChange={(checked) => setResolved(checked ? "true" : "")}
      />
      <Card flush>
        <DataTable
          caption={text.title}
          columns={useColumns(setResolving)}
          {...table}
          rowKey={({ id }) => String(id)}
          empty={
            <EmptyState icon={<CircleCheck />} title={text.none}>
              {text.noneHint}
            </EmptyState>
          }
        />
      </Card>
      <ResolveDialog problem={resolving} onClose={() => setResolving(undefined)} />
    </OperatorPage>
  )
}

function useColumns(onResolve: (problem: Problem) => void): readonly Column<Problem>[] {
  const text = useProblemsText()
  const format = useFormat()
  const { columns: heads } = text
  return [
    {
      id: "reference",
      head: heads.reference,
      names: true,
      cell: ({ provider, reference }) => (
        <span className="operator-name">
          <span>{provider}</span>
          <code>{reference}</code>
        </span>
      ),
    },
    { id: "kind", head: heads.kind, cell: ({ kind }) => <Tag tone="warn">{text.kinds[kind]}</Tag> },
    { id: "paid", head: heads.paid, cell: ({ paid }) => paid },
    {
      id: "account",
      head: heads.account,
      cell: ({ account_id: account, top_up_id: topUp }) =>
        account === null ? (
          text.nobody
        ) : (
          <span className="operator-reference">
            <Link href={`/operator/accounts/${account}`}>{text.toAccount}</Link>
            <code>{topUp}</code>
          </span>
        ),
    },
    { id: "seen", head: heads.seen, cell: ({ last_seen_at: seen }) => format.dateTime(seen) },
    {
      id: "resolution",
      head: heads.resolution,
      cell: (problem) =>
        problem.resolved_at === null ? (
          <Button size="small" onClick={() => onResolve(problem)}>
            {text.resolve}
          </Button>
        ) : (
          <span className="operator-reference">
            <span>{problem.note}</span>
            <span>{text.resolved(format.dateTime(problem.resolved_at))}</span>
          </span>
        ),
    },
  ]
}

interface ResolveDialogProps {
  readonly problem: Problem | undefined
  readonly onClose: () => void
}

function ResolveDialog({ problem, onClose }: ResolveDialogProps) {
  const text = useProblemsText()
  const format = useFormat()
  return (
    <ActDialog
      open={problem !== undefined}
      title={text.resolveTitle(problem?.reference ?? "")}
      act={text.resolveAct}
      done={text.resolveDone}
      reason={text.note}
      run={(note) => told(api.operator["payment-problems"]({ id: problem?.id ?? 0 }).resolve.post({ note }))}
      onClose={onClose}
    >
      {problem !== undefined && (
        <Facts
          facts={[
            { name: text.columns.kind, value: text.kinds[problem.kind] },
            { name: text.columns.paid, value: problem.paid },
            { name: text.topUp, value: problem.top_up_id ?? "–" },
            { name: text.columns.seen, value: format.dateTime(problem.last_seen_at) },
          ]}
        />
      )}
      <p>{text.resolveText}</p>
    </ActDialog>
  )
}
