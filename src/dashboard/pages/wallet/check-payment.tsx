/** "I have paid": the payment provider is asked at once, and what it says is told. */
import { useMutation, useQueryClient } from "@tanstack/react-query"
import { Button } from "../../components/button.tsx"
import { ErrorState } from "../../components/error-state.tsx"
import { checkTopUp, type TopUp, topUpQuery } from "./data.ts"
import { useWalletText } from "./text.ts"

export function CheckPayment({ topUp: { id } }: { readonly topUp: TopUp }) {
  const text = useWalletText()
  const client = useQueryClient()
  const check = useMutation({
    mutationFn: () => checkTopUp(id),
    onSuccess: (topUp) => client.setQueryData(topUpQuery(id).queryKey, topUp),
  })
  return (
    <div className="check-payment">
      <Button busy={check.isPending} onClick={() => check.mutate()}>
        {text.check}
      </Button>
      <p role="status">{check.isSuccess && check.data.status !== "paid" ? text.notYet : ""}</p>
      {check.error !== null && <ErrorState error={check.error} />}
    </div>
  )
}
