import { Tag, type Tone } from "../../components/tag.tsx"
import type { ListedTopUp } from "./data.ts"
import { useWalletText } from "./text.ts"

const TONES: Readonly<Record<ListedTopUp["status"], Tone>> = { pending: "warn", paid: "good", expired: "neutral" }

/** How far a top-up has come, in a word. */
export function TopUpStatus({ status }: Pick<ListedTopUp, "status">) {
  const text = useWalletText()
  return <Tag tone={TONES[status]}>{text.statuses[status]}</Tag>
}

/** How a top-up is paid; a provider that has no name here goes by its own. */
export function useMethodName(): (provider: string) => string {
  const { methods } = useWalletText()
  return (provider) => (provider === "midtrans" || provider === "simulated" ? methods[provider] : provider)
}
