/** What an operator does to an account: adjusting its balance, freezing and unfreezing it. */
import { useMutation } from "@tanstack/react-query"
import { type FormEvent, useId, useState } from "react"
import { api, unwrap } from "../../api/client.ts"
import { Button } from "../../components/button.tsx"
import { Choice } from "../../components/choice.tsx"
import { Dialog } from "../../components/dialog.tsx"
import { ErrorState, useToasts } from "../../components/feedback.tsx"
import { TextField } from "../../components/form.tsx"
import { useComponentText } from "../../components/text.ts"
import { parseRupiah } from "../../i18n/amounts.ts"
import { useFormat } from "../../i18n/format.ts"
import { useLanguage } from "../../i18n/language.tsx"
import { useAccountText } from "./account-text.ts"
import { ActDialog } from "./act-dialog.tsx"
import { useRefetchAll } from "./list.ts"
import { useOperatorText } from "./text.ts"

const directions = ["credit", "debit"] as const

interface AdjustDialogProps {
  readonly account: { readonly id: string; readonly balance_micro: number }
  readonly open: boolean
  readonly onClose: () => void
}

interface Adjustment {
  readonly amount_micro: number
  readonly reason: string
  readonly idempotency_key: string
}

/** Balance given or taken, with what it will be then. Sent again after a lost answer it comes once: its key stays the same. */
export function AdjustDialog({ account, open, onClose }: AdjustDialogProps) {
  const text = useAccountText()
  const components = useComponentText()
  const format = useFormat()
  const toasts = useToasts()
  const refetchAll = useRefetchAll()
  const id = useId()
  const [act, setAct] = useState<string>()
  const adjust = useMutation({
    mutationFn: (adjustment: Adjustment) =>
      unwrap(api.operator.accounts({ id: account.id }).adjustments.post(adjustment)),
    onSuccess: async ({ balance_micro: balance }) => {
      await refetchAll()
      toasts.done(text.adjustDone(format.rupiah(balance, "exact")))
      close()
    },
  })
  const close = () => {
    adjust.reset()
    setAct(undefined)
    onClose()
  }
  return (
    <Dialog
      open={open}
      title={text.adjustTitle}
      onClose={close}
      footer={
        <>
          <Button onClick={close}>{components.cancel}</Button>
          <Button kind="primary" type="submit" form={id} busy={adjust.isPending}>
            {act ?? text.adjustAct}
          </Button>
        </>
      }
    >
      {adjust.error !== null && <ErrorState error={adjust.error} />}
      <AdjustForm
        id={id}
        balanceMicro={BigInt(account.balance_micro)}
        onAct={setAct}
        onSend={(adjustment) => {
          if (!adjust.isPending) adjust.mutate(adjustment)
        }}
      />
    </Dialog>
  )
}

interface AdjustFormProps {
  readonly id: string
  readonly balanceMicro: bigint
  /** What the button says. */
  readonly onAct: (act: string | undefined) => void
  readonly onSend: (adjustment: Adjustment) => void
}

function AdjustForm({ id, balanceMicro, onAct, onSend }: AdjustFormProps) {
  const text = useAccountText()
  const operatorText = useOperatorText()
  const format = useFormat()
  const { language } = useLanguage()
  const [key] = useState(() => crypto.randomUUID())
  const [written, setWritten] = useState({ direction: "credit" as (typeof directions)[number], amount: "", reason: "" })
  const [sent, setSent] = useState(false)
  const size = parseRupiah(written.amount, language)
  const amount = size === undefined ? undefined : written.direction === "credit" ? size : -size
  const amountError =
    amount === undefined || amount === 0n || amount > BigInt(Number.MAX_SAFE_INTEGER)
      ? text.amountWrong
      : balanceMicro + amount < 0n
        ? text.amountTooMuch
        : undefined
  const reason = written.reason.trim()
  const set = (change: Partial<typeof written>) => {
    const next = { ...written, ...change }
    setWritten(next)
    const micro = parseRupiah(next.amount, language)
    const say = next.direction === "credit" ? text.creditAct : text.debitAct
    onAct(micro === undefined || micro === 0n ? undefined : say(format.rupiah(micro, "exact")))
  }
  const send = (event: FormEvent) => {
    event.preventDefault()
    setSent(true)
    if (amountError !== undefined || amount === undefined || reason === "") return
    onSend({ amount_micro: Number(amount), reason, idempotency_key: key })
  }
  return (
    <form id={id} className="operator-form" onSubmit={send} noValidate>
      <Choice
        label={text.direction}
        values={directions}
        chosen={written.direction}
        nameOf={(direction) => text.directions[direction]}
        onChoose={(direction) => set({ direction })}
      />
      <TextField
        label={text.amount}
        before="Rp"
        inputMode="decimal"
        autoComplete="off"
        data-autofocus
        error={sent ? amountError : undefined}
        hint={
          amountError === undefined && amount !== undefined
            ? text.fromTo(format.rupiah(balanceMicro, "exact"), format.rupiah(balanceMicro + amount, "exact"))
            : written.direction === "debit"
              ? text.debitHint
              : undefined
        }
        value={written.amount}
        onChange={({ target }) => set({ amount: target.value })}
      />
      <TextField
        label={text.reason}
        hint={operatorText.reasonHint}
        error={sent && reason === "" ? operatorText.reasonWrong : undefined}
        maxLength={500}
        autoComplete="off"
        value={written.reason}
        onChange={({ target }) => set({ reason: target.value })}
      />
    </form>
  )
}

interface FreezingProps {
  readonly account: { readonly id: string; readonly email: string }
  readonly open: boolean
  readonly onClose: () => void
}

/** Stopping an account's calls, and letting them pass again. */
export function FreezeDialog({ account: { id, email }, keys, ...dialog }: FreezingProps & { readonly keys: number }) {
  const text = useAccountText()
  const format = useFormat()
  return (
    <ActDialog
      {...dialog}
      title={text.freezeTitle(email)}
      act={text.freezeAct}
      done={text.freezeDone}
      reason={text.reason}
      danger
      run={(reason) => unwrap(api.operator.accounts({ id }).freeze.post({ reason }))}
    >
      <p>{text.freezeText(format.number(keys))}</p>
    </ActDialog>
  )
}

export function UnfreezeDialog({ account: { id, email }, ...dialog }: FreezingProps) {
  const text = useAccountText()
  return (
    <ActDialog
      {...dialog}
      title={text.unfreezeTitle(email)}
      act={text.unfreezeAct}
      done={text.unfreezeDone}
      reason={text.reason}
      run={(reason) => unwrap(api.operator.accounts({ id }).unfreeze.post({ reason }))}
    >
      <p>{text.unfreezeText}</p>
    </ActDialog>
  )
}
