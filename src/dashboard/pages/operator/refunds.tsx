/** Money back on an account's page: what went back, what is still to be paid out, and the dialogs that do it. */
import { useState } from "react"
import { api, unwrap } from "../../api/client.ts"
import { Choice, SelectField, TextField } from "../../components/form.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { FormDialog } from "../../components/dialog.tsx"
import { Card } from "../../components/layout.tsx"
import { Money, Tag, type Tone } from "../../components/values.tsx"
import { useFormat, useLanguage, useLanguageChange } from "../../i18n/language.tsx"
import { amountIn, parseRupiah } from "../../i18n/figures.ts"
import { ActDialog, MadeBefore, once, ReasonField, useAction, useDraft } from "./act-dialog.tsx"
import { at, RoleButton, useList } from "./frame.tsx"
import { useRefundsText } from "./refunds-text.ts"

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
  const [acting, setActing] = useState<{ readonly refund: Refund; readonly act: Act }>()
  return (
    <Card title={text.refunds} flush>
      <DataTable
        caption={text.refunds}
        columns={useColumns((refund, act) => setActing({ refund, act }))}
        {...table}
        rowKey={({ id }) => id}
        empty={text.none}
      />
      {acting !== undefined && <RefundActDialog {...acting} onClose={() => setActing(undefined)} />}
    </Card>
  )
}

type Act = "paid-out" | "send" | "cancel"

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
        <span className="operator-refund-state">
          <Tag tone={TONES[refund.status]}>{text.statuses[refund.status]}</Tag>
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

export interface RefundedTopUp {
  readonly id: string
  readonly status: string
  readonly created_at: string
  readonly refunded_micro: number
  readonly breakdown: { readonly total_micro: number; readonly balance_purchased_micro: number }
}

export interface RefundedAccount {
  readonly id: string
  readonly balance_micro: number
  readonly deleted_at: string | null
  /** The latest ones. */
  readonly top_ups: readonly RefundedTopUp[]
}

const payouts = ["by_hand", "provider"] as const

/** As typed; without a top-up it is what is left of a closed account. */
interface RefundDraft {
  readonly topUp: string
  readonly amount: string
  readonly payout: (typeof payouts)[number]
  readonly reason: string
}

interface RefundDialogProps {
  readonly account: RefundedAccount
  /** The one that is chosen at first, which may be an older one. */
  readonly first?: RefundedTopUp
  readonly onClose: () => void
}

/** Refunds a top-up, or what is left of a closed account. */
export function RefundDialog({ account, first, onClose }: RefundDialogProps) {
  const text = useRefundsText()
  const format = useFormat()
  const { language } = useLanguage()
  const isOlder = first !== undefined && account.top_ups.every(({ id }) => id !== first.id)
  const topUps = [...(isOlder ? [first] : []), ...account.top_ups].filter(isRefundable)
  const isClosed = account.deleted_at !== null
  const mostOf = (id: string) => {
    const balance = BigInt(account.balance_micro)
    const topUp = topUps.find((one) => one.id === id)
    if (topUp === undefined) return balance
    const bought = BigInt(topUp.breakdown.balance_purchased_micro) - BigInt(topUp.refunded_micro)
    // Fees go back once all that was bought does.
    return bought <= balance ? leftOf(topUp) : balance
  }
  const { values, set, sent, send } = useDraft<RefundDraft>({
    topUp: first?.id ?? (isClosed ? "" : (topUps[0]?.id ?? "")),
    // How much goes back is the operator's to say.
    amount: "",
    payout: "by_hand",
    reason: "",
  })
  useLanguageChange((was) => set({ amount: amountIn(language, values.amount, was) }))
  const refund = useAction({
    run: (body: { top_up_id: string | null; amount_micro: number; payout: (typeof payouts)[number]; reason: string }) =>
      once(`refund of ${account.id}`, (key) =>
        unwrap(api.operator.accounts({ id: account.id }).refunds.post({ ...body, idempotency_key: key })),
      ),
    done: ({ status }) => text.made[status],
    onClose,
  })
  const amount = parseRupiah(values.amount, language)
  const most = mostOf(values.topUp)
  const amountWrong = amount === undefined || amount <= 0n
  const isTooMuch = !amountWrong && amount > most
  const reason = values.reason.trim()
  if (!isClosed && topUps.length === 0) {
    return (
      <FormDialog
        title={text.refundTitle}
        submit={text.understood}
        busy={false}
        error={null}
        onSubmit={onClose}
        onClose={onClose}
      >
        <p>{text.nothing}</p>
      </FormDialog>
    )
  }
  return (
    <FormDialog
      title={text.refundTitle}
      submit={amountWrong ? text.refund : text.refundAct(format.rupiah(amount, "exact"))}
      busy={refund.isPending}
      error={refund.error}
      onSubmit={() => {
        send()
        if (amountWrong || isTooMuch || reason === "") return
        const payout = values.topUp === "" ? "by_hand" : values.payout
        refund.mutate({ top_up_id: values.topUp || null, amount_micro: Number(amount), payout, reason })
      }}
      onClose={onClose}
    >
      <MadeBefore error={refund.error} />
      <p>{text.refundText}</p>
      <SelectField
        label={text.of}
        value={values.topUp}
        onChange={({ target }) => set({ topUp: target.value })}
        options={[
          ...(isClosed ? [{ value: "", label: text.leftOver(format.rupiah(account.balance_micro)) }] : []),
          ...topUps.map((topUp) => ({
            value: topUp.id,
            // Two of one amount may be of one minute.
            label: `${format.dateTime(topUp.created_at)} · ${format.rupiah(leftOf(topUp))} · ${topUp.id}`,
          })),
        ]}
      />
      <TextField
        label={text.amount}
        before="Rp"
        inputMode="decimal"
        autoComplete="off"
        data-autofocus
        error={sent ? (amountWrong ? text.amountWrong : isTooMuch ? text.amountTooMuch : undefined) : undefined}
        hint={text.amountHint(format.rupiah(most, "exact"), values.topUp !== "")}
        value={values.amount}
        onChange={({ target }) => set({ amount: target.value })}
      />
      {values.topUp !== "" && (
        <Choice
          label={text.payout}
          values={payouts}
          chosen={values.payout}
          nameOf={(payout) => text.payouts[payout]}
          onChoose={(payout) => set({ payout })}
        />
      )}
      <ReasonField
        shown
        label={text.reason}
        missing={sent && reason === ""}
        value={values.reason}
        onChange={({ target }) => set({ reason: target.value })}
      />
    </FormDialog>
  )
}

const leftOf = ({ breakdown, refunded_micro: back }: RefundedTopUp): bigint =>
  BigInt(breakdown.total_micro) - BigInt(back)

/** Whether something of it can go back. */
export const isRefundable = (topUp: RefundedTopUp): boolean => topUp.status === "paid" && leftOf(topUp) > 0n
