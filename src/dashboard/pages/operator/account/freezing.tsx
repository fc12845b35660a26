/** Stopping an account's calls, and letting them pass again. */
import { api } from "../../../api/client.ts"
import { told } from "../../../api/failure.ts"
import { useFormat } from "../../../i18n/format.ts"
import { ActDialog } from "../act-dialog.tsx"
import { useAccountText } from "./text.ts"

interface FreezingProps {
  readonly account: { readonly id: string; readonly email: string }
  readonly open: boolean
  readonly onClose: () => void
}

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
      run={(reason) => told(api.operator.accounts({ id }).freeze.post({ reason }))}
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
      run={(reason) => told(api.operator.accounts({ id }).unfreeze.post({ reason }))}
    >
      <p>{text.unfreezeText}</p>
    </ActDialog>
  )
}
