/** What an operator does to an account: adjusting its balance, freezing and unfreezing it, revoking a key, and giving it a role. */
import { TriangleAlert } from "lucide-react"
import { useState } from "react"
import { api, unwrap } from "../../api/client.ts"
import { Choice, TextField } from "../../components/form.tsx"
import { FormDialog } from "../../components/dialog.tsx"
import { useFormat, useLanguage, useLanguageChange } from "../../i18n/language.tsx"
import { leaveFor } from "../../shell/session.tsx"
import { amountIn, parseRupiah } from "../../i18n/figures.ts"
import { useAccountText } from "./account-text.ts"
import {
  ActDialog,
  Confirm,
  MadeBefore,
  once,
  ReasonField,
  useAction,
  useDraft,
  useOperatorText,
} from "./act-dialog.tsx"
import type { OperatorRole } from "./frame.tsx"

const directions = ["credit", "debit"] as const

/** As typed. */
interface AdjustmentDraft {
  readonly direction: (typeof directions)[number]
  readonly amount: string
  readonly reason: string
  readonly confirmed: boolean
}

interface AdjustDialogProps {
  readonly account: { readonly id: string; readonly balance_micro: number; readonly confirm_above_micro: number }
  readonly onClose: () => void
}

interface Adjustment {
  readonly confirm_large?: true
  readonly amount_micro: number
  readonly reason: string
}

/** Credits or debits the balance. */
export function AdjustDialog({ account, onClose }: AdjustDialogProps) {
  const text = useAccountText()
  const format = useFormat()
  const { language } = useLanguage()
  const { values, set, sent, send } = useDraft<AdjustmentDraft>({
    direction: "credit",
    amount: "",
    reason: "",
    confirmed: false,
  })
  useLanguageChange((was) => set({ amount: amountIn(language, values.amount, was) }))
  const adjust = useAction({
    run: (adjustment: Adjustment) =>
      once(`adjustment of ${account.id}`, (key) =>
        unwrap(api.operator.accounts({ id: account.id }).adjustments.post({ ...adjustment, idempotency_key: key })),
      ),
    done: ({ balance_micro: balance }) => text.adjustDone(format.rupiah(balance, "exact")),
    onClose,
  })
  const isCredit = values.direction === "credit"
  const balance = BigInt(account.balance_micro)
  const size = parseRupiah(values.amount, language)
  const amount = size === undefined ? undefined : isCredit ? size : -size
  const amountError =
    amount === undefined || amount === 0n
      ? text.amountWrong
      : balance + amount > BigInt(Number.MAX_SAFE_INTEGER)
        ? text.amountTooLarge
        : balance + amount < 0n
          ? text.amountTooMuch
          : undefined
  const reason = values.reason.trim()
  const isLarge = size !== undefined && size > BigInt(account.confirm_above_micro) && amountError === undefined
  const act = isCredit ? text.creditAct : text.debitAct
  return (
    <FormDialog
      title={text.adjustTitle}
      submit={size === undefined || size === 0n ? text.adjustAct : act(format.rupiah(size, "exact"))}
      busy={adjust.isPending}
      disabled={isLarge && !values.confirmed}
      error={adjust.error}
      onSubmit={() => {
        send()
        if (amountError !== undefined || amount === undefined || reason === "") return
        if (isLarge && !values.confirmed) return
        adjust.mutate({
          amount_micro: Number(amount),
          reason,
          ...(isLarge && ({ confirm_large: true } as const)),
        })
      }}
      onClose={onClose}
    >
      <MadeBefore error={adjust.error} />
      <Choice
        label={text.direction}
        values={directions}
        chosen={values.direction}
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
            ? text.fromTo(format.rupiah(balance, "exact"), format.rupiah(balance + amount, "exact"))
            : isCredit
              ? undefined
              : text.debitHint
        }
        value={values.amount}
        // Another amount is another decision.
        onChange={({ target }) => set({ amount: target.value, confirmed: false })}
      />
      {isLarge && (
        <div className="operator-warning" role="alert">
          <p>
            <TriangleAlert aria-hidden="true" />
            <strong>{text.large(format.rupiah(size, "exact"))}</strong>
          </p>
          <Confirm checked={values.confirmed} onChange={({ target }) => set({ confirmed: target.checked })}>
            {text.largeConfirm}
          </Confirm>
        </div>
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

interface FreezingProps {
  readonly account: { readonly id: string; readonly email: string }
  readonly onClose: () => void
}

/** Freezes an account: its calls are refused. */
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
      before={({ frozen_reason: why }, reason) => (why === reason ? undefined : text.frozenBefore(why ?? ""))}
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

interface RevokeKeyProps {
  readonly accountId: string
  readonly apiKey: { readonly id: string; readonly name: string; readonly prefix: string; readonly last4: string }
  readonly onClose: () => void
}

/** Revokes one key, as when it has leaked. */
export function RevokeKeyDialog({ accountId, apiKey, onClose }: RevokeKeyProps) {
  const text = useAccountText()
  const key = api.operator.accounts({ id: accountId }).keys({ key: apiKey.id })
  return (
    <ActDialog
      title={text.revokeKeyTitle(apiKey.name)}
      act={text.revokeKeyAct}
      done={text.revokeKeyDone(apiKey.name)}
      reason={text.reason}
      danger
      run={(reason) => unwrap(key.revoke.post({ reason }))}
      onClose={onClose}
    >
      <p>
        <code>{`${apiKey.prefix}…${apiKey.last4}`}</code>
      </p>
      <p>{text.revokeKeyText}</p>
    </ActDialog>
  )
}

/** The page is loaded anew, so that nothing of the operator's own is left on it. */
export function SeeAsDialog({ account: { id, email }, ...dialog }: FreezingProps) {
  const text = useAccountText()
  return (
    <ActDialog
      {...dialog}
      title={text.seeAsTitle(email)}
      act={text.seeAsAct}
      done={text.seeAsDone}
      reason={text.reason}
      run={async (reason) => {
        await unwrap(api.operator.accounts({ id })["see-as"].post({ reason }))
        leaveFor("/dashboard/")
        // The dialog stays until the other page is there.
        return await new Promise<never>(() => {})
      }}
    >
      <p>{text.seeAsText}</p>
    </ActDialog>
  )
}

const givenRoles = ["customer", "support", "finance", "owner"] as const

/** Makes an account an operator's, or a customer's again. Of the last owner the server says that it stays one. */
export function RoleDialog({
  account: { id, email, operator_role: now },
  ...dialog
}: FreezingProps & { readonly account: { readonly operator_role: OperatorRole | null } }) {
  const text = useAccountText()
  const { roles } = useOperatorText()
  const [role, setRole] = useState<(typeof givenRoles)[number]>(now ?? "customer")
  const nameOf = (given: typeof role) => (given === "customer" ? text.customer : roles[given])
  return (
    <ActDialog
      {...dialog}
      title={text.roleTitle(email)}
      act={text.roleAct}
      done={text.roleDone(nameOf(role))}
      reason={text.reason}
      run={(reason) => unwrap(api.operator.accounts({ id }).role.post({ role, reason }))}
    >
      <Choice
        label={text.role}
        hint={text.roleHints[role]}
        values={givenRoles}
        chosen={role}
        nameOf={nameOf}
        onChoose={setRole}
      />
      <p>{text.roleText}</p>
    </ActDialog>
  )
}
