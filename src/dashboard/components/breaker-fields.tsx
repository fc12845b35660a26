/** The fields of a breaker, of a key or of the account: text while it is typed. An empty ceiling is none. */
import type { Language } from "../i18n/language.tsx"
import { amountText, parseRupiah } from "../i18n/parse.ts"
import { useBreakerText } from "./breaker-text.ts"
import { Choice } from "./choice.tsx"
import { TextField } from "./form.tsx"

export interface BreakerDraft {
  readonly ceiling: string
  readonly action: (typeof ACTIONS)[number]
  /** Minutes, or `none`. */
  readonly pause: string
}

export interface BreakerSettings {
  readonly ceiling_micro: number | null
  readonly action: BreakerDraft["action"]
  readonly pause_minutes: number | null
}

const ACTIONS = ["warn", "stop"] as const
const PAUSES = ["none", "15", "60", "1440"] as const
const isKnown = (pause: string): pause is (typeof PAUSES)[number] => PAUSES.some((known) => known === pause)

export const breakerDraft = (settings: BreakerSettings, language: Language): BreakerDraft => ({
  ceiling: settings.ceiling_micro === null ? "" : amountText(settings.ceiling_micro, language),
  action: settings.action,
  pause: settings.pause_minutes === null ? "none" : String(settings.pause_minutes),
})

/** The body to send; undefined when the ceiling is no amount. */
export function readBreaker({ ceiling, action, pause }: BreakerDraft, language: Language): BreakerSettings | undefined {
  const rest = { action, pause_minutes: pause === "none" ? null : Number(pause) }
  if (ceiling.trim() === "") return { ceiling_micro: null, ...rest }
  const micro = parseRupiah(ceiling, language)
  if (micro === undefined || micro < 1n || micro > BigInt(Number.MAX_SAFE_INTEGER)) return undefined
  return { ceiling_micro: Number(micro), ...rest }
}

interface BreakerFieldsProps {
  readonly draft: BreakerDraft
  /** It was submitted, and is no amount. */
  readonly wrong: boolean
  readonly onChange: (draft: BreakerDraft) => void
}

export function BreakerFields({ draft, wrong, onChange }: BreakerFieldsProps) {
  const text = useBreakerText()
  // One that was set through the API stays a choice.
  const pauses = isKnown(draft.pause) ? PAUSES : [draft.pause, ...PAUSES]
  return (
    <>
      <TextField
        label={text.ceiling}
        hint={text.ceilingHint}
        error={wrong ? text.amountWrong : undefined}
        optional
        before="Rp"
        inputMode="decimal"
        autoComplete="off"
        maxLength={24}
        value={draft.ceiling}
        onChange={({ target }) => onChange({ ...draft, ceiling: target.value })}
      />
      {draft.ceiling.trim() !== "" && (
        <Choice
          label={text.action}
          hint={text.actionHints[draft.action]}
          values={ACTIONS}
          chosen={draft.action}
          nameOf={(action) => text.actions[action]}
          onChoose={(action) => onChange({ ...draft, action })}
        />
      )}
      {draft.ceiling.trim() !== "" && draft.action === "stop" && (
        <Choice
          label={text.pause}
          values={pauses}
          chosen={draft.pause}
          nameOf={(pause) => (isKnown(pause) ? text.pauses[pause] : text.pauseOther(pause))}
          onChoose={(pause) => onChange({ ...draft, pause })}
        />
      )}
    </>
  )
}
