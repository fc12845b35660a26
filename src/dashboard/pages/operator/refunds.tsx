/** Money back: what went back of an account, what waits to be paid out of all of them, and what can be done about it. */
import { CircleCheck } from "lucide-react"
import { useState } from "react"
import { Link } from "wouter"
import { api, unwrap } from "../../api/client.ts"
import { Choice, TextField } from "../../components/form.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { EmptyState } from "../../components/feedback.tsx"
import { Card } from "../../components/layout.tsx"
import { Money, Tag, type Tone } from "../../components/values.tsx"
import { useFormat, texts } from "../../i18n/language.tsx"
import { ActDialog } from "./act-dialog.tsx"
import { at, OperatorPage, RoleButton, useList, useParameter } from "./frame.tsx"
import { useRefundsText } from "./refund-dialog.tsx"

const refundsPage = (accountId: string, cursor: string | undefined) =>
  unwrap(api.operator.accounts({ id: accountId }).refunds.get({ query: at(cursor) }))
type Refund = Awaited<ReturnType<typeof refundsPage>>["data"][number]

/** The list of what went back of an account. */
export const useRefunds = (accountId: string) =>
  useList(["refunds", accountId], (cursor) => refundsPage(accountId, cursor))

const TONES: Readonly<Record<Refund["status"], Tone>> = {
  booked: "warn",
  sending: "warn",
  paid_out: "good",
  cancelled: "neutral",
}

/** What went back of an account, with what can be done about what is not paid out. */
export function Refunds({ accountId }: { readonly accountId: string }) {
  const text = useRefundsText()
  const { table } = useRefunds(accountId)
  const { columns, dialog } = useActs()
  return (
    <Card title={text.refunds} flush>
      <DataTable caption={text.refunds} columns={columns} {...table} rowKey={({ id }) => id} empty={text.none} />
      {dialog}
    </Card>
  )
}

/** What waits for somebody to transfer it, and what waits for the provider. */
const waiting = ["booked", "sending"] as const

const waitingPage = (status: (typeof waiting)[number] | undefined, cursor: string | undefined) =>
  unwrap(api.operator.refunds.get({ query: { ...(status !== undefined && { status }), ...at(cursor) } }))
type WaitingRefund = Awaited<ReturnType<typeof waitingPage>>["data"][number]

/** The refunds of all accounts that are not paid out yet. */
export default function RefundsPage() {
  const text = useWaitingText()
  const { refunds, statuses } = useRefundsText()
  const [asked, setStatus] = useParameter("status")
  const status = waiting.find((known) => known === asked)
  const { table } = useList(["refunds", "waiting", status], (cursor) => waitingPage(status, cursor))
  const { columns, dialog } = useActs()
  const [, time, ...rest] = columns
  const account: Column<WaitingRefund> = {
    id: "account",
    head: text.account,
    names: true,
    cell: ({ account_id: id, email }) => <Link href={`/operator/accounts/${id}`}>{email}</Link>,
  }
  const since = time === undefined ? [] : [{ ...time, head: text.since }]
  return (
    <OperatorPage title={refunds} intro={text.intro}>
      <Choice
        label={text.status}
        values={["", ...waiting]}
        chosen={status ?? ""}
        nameOf={(value) => (value === "" ? text.any : statuses[value])}
        onChoose={setStatus}
      />
      <Card flush>
        <DataTable
          caption={refunds}
          columns={[account, ...since, ...rest]}
          {...table}
          rowKey={({ id }) => id}
          empty={
            <EmptyState icon={<CircleCheck />} title={text.none}>
              {text.noneHint}
            </EmptyState>
          }
        />
      </Card>
      {dialog}
    </OperatorPage>
  )
}

type Act = "paid-out" | "send" | "cancel"

/** The columns of a list of refunds, and the dialog of what was pressed in it. */
function useActs() {
  const [acting, setActing] = useState<{ readonly refund: Refund; readonly act: Act }>()
  return {
    columns: useColumns((refund, act) => setActing({ refund, act })),
    dialog: acting !== undefined && <RefundActDialog {...acting} onClose={() => setActing(undefined)} />,
  }
}

function useColumns(onAct: (refund: Refund, act: Act) => void): readonly Column<Refund>[] {
  const text = useRefundsText()
  const format = useFormat()
  const { columns: heads } = text
  return [
    { id: "kind", head: heads.kind, names: true, cell: ({ kind }) => text.kinds[kind] },
    { id: "time", head: heads.time, cell: ({ created_at: time }) => format.dateTime(time) },
    {
      id: "amount",
      head: heads.amount,
      numeric: true,
      cell: ({ amount_micro: amount }) => <Money micro={amount} form="exact" />,
    },
    {
      id: "note",
      head: heads.note,
      cell: ({ reason, reference, top_up_id: topUp, claimed_micro: claimed, problem }) => (
        <span className="operator-reference">
          {reason !== "" && <span>{reason}</span>}
          {claimed > 0 && <span>{text.claimed(format.rupiah(claimed))}</span>}
          {problem !== null && <span>{text.refused(problem)}</span>}
          {topUp !== null && <code>{topUp}</code>}
          {reference !== null && <code>{reference}</code>}
        </span>
      ),
    },
    {
      id: "status",
      head: heads.status,
      cell: (refund) => (
        <span className="operator-state">
          <Tag tone={TONES[refund.status]}>{text.statuses[refund.status]}</Tag>
          {isUnanswered(refund) && (
            <RoleButton role="finance" size="small" onClick={() => onAct(refund, "paid-out")}>
              {text.acts["paid-out"]}
            </RoleButton>
          )}
          {refund.status === "booked" && (
            <span className="operator-refund-acts">
              <RoleButton role="finance" size="small" onClick={() => onAct(refund, "paid-out")}>
                {text.acts["paid-out"]}
              </RoleButton>
              {refund.top_up_id !== null && (
                <RoleButton role="finance" size="small" onClick={() => onAct(refund, "send")}>
                  {text.acts.send}
                </RoleButton>
              )}
              <RoleButton role="finance" size="small" onClick={() => onAct(refund, "cancel")}>
                {text.acts.cancel}
              </RoleButton>
            </span>
          )}
        </span>
      ),
    },
  ]
}

/** As long as the gateway believes that the provider will say whether it has paid. */
const UNANSWERED_MS = 3 * 24 * 60 * 60 * 1_000

const isUnanswered = ({ status, created_at: since }: Refund): boolean =>
  status === "sending" && Date.now() - Date.parse(since) >= UNANSWERED_MS

interface RefundActProps {
  readonly refund: Refund
  readonly act: Act
  readonly onClose: () => void
}

function RefundActDialog({ refund, act, onClose }: RefundActProps) {
  const text = useRefundsText()
  const format = useFormat()
  const [reference, setReference] = useState("")
  const route = api.operator.refunds({ id: refund.id })
  const run = (reason: string) =>
    act === "paid-out"
      ? unwrap(route["paid-out"].post({ reference: reference.trim(), reason }))
      : unwrap(route[act].post({ reason }))
  return (
    <ActDialog
      title={text.actTitles[act](format.rupiah(refund.amount_micro, "exact"))}
      act={text.acts[act]}
      done={text.actsDone[act]}
      reason={text.reason}
      danger={act === "cancel"}
      run={run}
      onClose={onClose}
    >
      <p>{text.actTexts[act]}</p>
      {refund.status === "sending" && <p>{text.unanswered}</p>}
      {act === "paid-out" && (
        <TextField
          label={text.reference}
          hint={text.referenceHint}
          required
          maxLength={200}
          autoComplete="off"
          value={reference}
          // Blanks alone are no number.
          onChange={({ target }) => setReference(target.value.trimStart())}
        />
      )}
    </ActDialog>
  )
}

const useWaitingText = texts({
  id: {
    intro:
      "Dana yang sudah diambil dari saldo dan belum sampai ke pelanggan. Yang belum dibayarkan menunggu transfer Anda; yang dikirim lewat penyedia selesai sendiri.",
    account: "Akun",
    since: "Menunggu sejak",
    status: "Menunggu",
    any: "Semua",
    none: "Tidak ada yang menunggu",
    noneHint: "Semua pengembalian dana sudah dibayarkan.",
  },
  en: {
    intro:
      "Money that was taken of balances and has not come to the customer. What is to be paid out waits for your transfer; what the provider was asked for ends by itself.",
    account: "Account",
    since: "Waiting since",
    status: "Waits",
    any: "All",
    none: "Nothing is waiting",
    noneHint: "Every refund has been paid out.",
  },
})
