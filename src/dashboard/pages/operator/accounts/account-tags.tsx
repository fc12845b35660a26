/** What an account is and may, in words. */
import { Tag } from "../../../components/tag.tsx"
import { useAccountsText } from "./text.ts"

interface AccountState {
  readonly role: "customer" | "operator"
  readonly frozen: boolean
  readonly deleted_at: string | null
}

export function AccountTags({ account }: { readonly account: AccountState }) {
  const text = useAccountsText()
  return (
    <span className="operator-tags">
      {account.deleted_at !== null ? (
        <Tag>{text.deleted}</Tag>
      ) : account.frozen ? (
        <Tag tone="bad">{text.frozen}</Tag>
      ) : (
        <Tag tone="good">{text.active}</Tag>
      )}
      {account.role === "operator" && <Tag tone="accent">{text.operator}</Tag>}
    </span>
  )
}
