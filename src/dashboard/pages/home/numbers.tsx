/** The account in four numbers. */
import { Stat, Stats } from "../../components/card.tsx"
import { Money } from "../../components/money.tsx"
import { Skeleton } from "../../components/skeleton.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useAccount } from "../../shell/session.tsx"
import { type Day, daysLeft, spentOn } from "./data.ts"
import { useHomeText } from "./text.ts"

/** Longer than this nobody plans. */
const LONGEST_DAYS = 365

export function Numbers({ days }: { readonly days: readonly Day[] | undefined }) {
  const text = useHomeText()
  const format = useFormat()
  const { balance_micro: balance, held_micro: held } = useAccount()
  const available = BigInt(balance) - BigInt(held)
  return (
    <Stats>
      <Stat label={text.available} note={held === 0 ? text.nothingHeld : text.held(format.rupiah(held))}>
        <Money micro={available} />
      </Stat>
      {days === undefined ? (
        <>
          <Waiting label={text.today} />
          <Waiting label={text.month} />
          <Waiting label={text.daysLeft} />
        </>
      ) : (
        <>
          <Spent label={text.today} days={days} prefix={days.at(-1)?.day ?? ""} />
          <Spent label={text.month} days={days} prefix={days.at(-1)?.day.slice(0, 8) ?? ""} />
          <Left days={days} available={available} />
        </>
      )}
    </Stats>
  )
}

const Waiting = ({ label }: { readonly label: string }) => (
  <Stat label={label}>
    <Skeleton />
  </Stat>
)

interface SpentProps {
  readonly label: string
  readonly days: readonly Day[]
  /** What its days begin with. */
  readonly prefix: string
}

function Spent({ label, days, prefix }: SpentProps) {
  const text = useHomeText()
  const format = useFormat()
  const { chargeMicro, calls } = spentOn(days, (day) => day.startsWith(prefix))
  return (
    <Stat label={label} note={text.calls(format.number(calls), calls === 1)}>
      <Money micro={chargeMicro} />
    </Stat>
  )
}

function Left({ days, available }: { readonly days: readonly Day[]; readonly available: bigint }) {
  const text = useHomeText()
  const format = useFormat()
  const left = daysLeft(days, available)
  if (left === undefined) {
    return (
      <Stat label={text.daysLeft} note={text.noPace}>
        –
      </Stat>
    )
  }
  return (
    <Stat label={text.daysLeft} note={text.pace}>
      {left > LONGEST_DAYS ? text.longer : text.days(format.number(left), left === 1)}
    </Stat>
  )
}
