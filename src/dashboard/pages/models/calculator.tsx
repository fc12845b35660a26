/** What calls of a certain size would cost, by the price that holds now. */
import { useState } from "react"
import type { CatalogueModel } from "../../api/queries.ts"
import { Facts } from "../../components/facts.tsx"
import { TextField } from "../../components/field.tsx"
import { Money } from "../../components/money.tsx"
import { costOf } from "./choose.ts"
import { useModelsText } from "./text.ts"

const MONTH_DAYS = 30n

/** Undefined for what is no whole number; digits enough for anybody. */
const whole = (text: string): number | undefined => (/^\d{1,9}$/.test(text.trim()) ? Number(text) : undefined)

export function Calculator({ model }: { readonly model: CatalogueModel }) {
  const text = useModelsText()
  const [input, setInput] = useState("2000")
  const [cached, setCached] = useState("0")
  const [output, setOutput] = useState("500")
  const [calls, setCalls] = useState("100")
  const inputTokens = whole(input)
  const cachedTokens = whole(cached)
  const outputTokens = whole(output)
  const callsPerDay = whole(calls)
  const wrong = (value: number | undefined) => (value === undefined ? text.wholeNumber : undefined)
  const tooMuch = (cachedTokens ?? 0) > (inputTokens ?? Infinity) ? text.tooMuchCached : undefined
  const valid =
    inputTokens !== undefined &&
    cachedTokens !== undefined &&
    outputTokens !== undefined &&
    callsPerDay !== undefined &&
    tooMuch === undefined
  const fields = [
    { label: text.inputTokens, value: input, set: setInput, error: wrong(inputTokens) },
    { label: text.cachedTokens, value: cached, set: setCached, error: wrong(cachedTokens) ?? tooMuch },
    { label: text.outputTokens, value: output, set: setOutput, error: wrong(outputTokens) },
    { label: text.callsPerDay, value: calls, set: setCalls, error: wrong(callsPerDay) },
  ]
  const perCall = valid ? costOf(model, { inputTokens, cachedTokens, outputTokens }) : undefined
  const perDay = perCall === undefined ? undefined : perCall * BigInt(callsPerDay ?? 0)
  return (
    <section className="calculator">
      <h3>{text.calculator}</h3>
      <p className="calculator-hint">{text.calculatorHint}</p>
      <div className="calculator-fields">
        {fields.map(({ label, value, set, error }) => (
          <TextField
            key={label}
            label={label}
            inputMode="numeric"
            value={value}
            error={error}
            onChange={({ target }) => set(target.value)}
          />
        ))}
      </div>
      <output>
        <Facts
          facts={[
            { name: text.perCall, value: shown(perCall) },
            { name: text.perDay, value: shown(perDay) },
            { name: text.perMonth, value: shown(perDay === undefined ? undefined : perDay * MONTH_DAYS) },
          ]}
        />
      </output>
    </section>
  )
}

const shown = (micro: bigint | undefined) => (micro === undefined ? "–" : <Money micro={micro} />)
