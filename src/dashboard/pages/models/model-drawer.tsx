/** One model: all that the catalogue says, and what a call would cost. And the words of the catalogue. */
import { MessageSquare } from "lucide-react"
import { useState } from "react"
import type { CatalogueModel } from "../../api/queries.ts"
import { ButtonLink, CopyButton } from "../../components/button.tsx"
import { Drawer } from "../../components/dialog.tsx"
import { TextField } from "../../components/form.tsx"
import { Facts } from "../../components/layout.tsx"
import { formatName, Money, Tag } from "../../components/values.tsx"
import { useFormat, texts, useLanguage } from "../../i18n/language.tsx"
import { parseWhole } from "../../i18n/figures.ts"
import { Difference, useOwnDifference, usePriceChangesText } from "../../shell/notices.tsx"
import { useSession } from "../../shell/session.tsx"
import { costOf, MONTH_DAYS, perMillion, type RateName, rateNames } from "./choose.ts"

interface ModelDrawerProps {
  readonly model: CatalogueModel
  readonly onClose: () => void
}

export function ModelDrawer({ model, onClose }: ModelDrawerProps) {
  const text = useModelsText()
  const { account } = useSession()
  const format = useFormat()
  const size = (tokens: number | null) => (tokens === null ? text.unknown : text.tokens(format.number(tokens)))
  const names: RateTexts = {
    input_micro: text.columns.input,
    output_micro: text.columns.output,
    cache_read_micro: text.columns.cacheRead,
    cache_write_micro: text.columns.cacheWrite,
  }
  return (
    <Drawer title={model.display_name} onClose={onClose}>
      <p className="model-id">
        <code>{model.model}</code>
        <CopyButton text={model.model} what={text.modelId} />
      </p>
      <Facts
        title={text.prices}
        facts={rateNames.map((rate) => ({ name: names[rate], value: <Money micro={perMillion(model[rate])} /> }))}
      />
      <NextPrice model={model} names={names} />
      <Facts
        title={text.details}
        facts={[
          { name: text.columns.context, value: size(model.context_window) },
          { name: text.maxOutput, value: size(model.max_output_tokens) },
          { name: text.provider, value: model.provider },
          { name: text.tier, value: text.tierName(model.tier) },
          { name: text.formats, value: model.endpoints.map(formatName).join(", ") },
          {
            name: text.fallback,
            value: model.fallback.length === 0 ? text.noFallback : <code>{model.fallback.join(" → ")}</code>,
          },
          {
            name: text.can,
            value: (
              <span className="model-tags">
                {model.supports_vision && <Tag>{text.capabilities.vision}</Tag>}
                {model.supports_tools && <Tag>{text.capabilities.tools}</Tag>}
                {FEATURES.map((feature) => {
                  const on = model.features[feature]
                  if (on === undefined) return undefined
                  if (feature === "reasoning") return <Tag key={feature}>{text.reasoning}</Tag>
                  return <Tag key={feature}>{`${text.capabilities[feature]}: ${on.map(formatName).join(", ")}`}</Tag>
                })}
              </span>
            ),
          },
        ]}
      />
      <Calculator model={model} />
      {model.endpoints.includes("chat") && account?.may.includes("build") !== false && (
        <ButtonLink to={`/playground?model=${encodeURIComponent(model.model)}`} icon={<MessageSquare />}>
          {text.toPlayground}
        </ButtonLink>
      )}
    </Drawer>
  )
}

/** As the catalogue names them. */
const FEATURES = ["structured_outputs", "web_search", "reasoning"] as const

type RateTexts = Readonly<Record<RateName, string>>

/** The price that is to come, and what it would have made of one's own last days. */
function NextPrice({ model, names }: { readonly model: CatalogueModel; readonly names: RateTexts }) {
  const text = useModelsText()
  const { own } = usePriceChangesText()
  const format = useFormat()
  const difference = useOwnDifference(model.model)
  const { next_price: next } = model
  if (next === undefined) return null
  return (
    <Facts
      title={text.next(format.dateTime(next.effective_at))}
      facts={[
        ...rateNames.map((rate) => ({ name: names[rate], value: <Money micro={perMillion(next[rate])} /> })),
        ...(difference === undefined ? [] : [{ name: own, value: <Difference micro={difference} /> }]),
      ]}
    />
  )
}

/** The cost of calls of a certain size at the current price. */
function Calculator({ model }: { readonly model: CatalogueModel }) {
  const text = useModelsText()
  const { language } = useLanguage()
  const [input, setInput] = useState("2000")
  const [cached, setCached] = useState("0")
  const [output, setOutput] = useState("500")
  const [calls, setCalls] = useState("100")
  const inputTokens = parseWhole(input, language)
  const cachedTokens = parseWhole(cached, language)
  const outputTokens = parseWhole(output, language)
  const callsPerDay = parseWhole(calls, language)
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

const tiers = new Map([
  ["flagship", "unggulan"],
  ["standard", "standar"],
  ["economy", "hemat"],
])

export const useModelsText = texts({
  id: {
    title: "Model",
    intro: "Harga per satu juta token, dalam Rupiah. Anda membayar harga ini saja, dari satu saldo.",
    search: "Cari model",
    searchHint: "Nama atau ID",
    can: "Kemampuan",
    capabilities: {
      vision: "Gambar",
      tools: "Tools",
      structured_outputs: "Keluaran terstruktur",
      web_search: "Pencarian web",
    },
    reasoning: "Berpikir dulu",
    format: "Format",
    anyFormat: "Semua format",
    sort: "Urutkan",
    sorts: {
      name: "Nama",
      input: "Masukan termurah",
      output: "Keluaran termurah",
      context: "Konteks terbesar",
    },
    shown: (count: string, all: string) => `${count} dari ${all} model`,
    none: "Tidak ada model yang cocok",
    noneHint: "Ubah pencarian atau lepaskan saringan.",
    reset: "Hapus saringan",
    columns: {
      model: "Model",
      context: "Konteks",
      input: "Masukan",
      output: "Keluaran",
      cacheRead: "Baca cache",
      cacheWrite: "Tulis cache",
      can: "Kemampuan",
    },
    unknown: "tidak dipublikasikan",
    tokens: (count: string) => `${count} token`,
    modelId: "ID model",
    details: "Rincian",
    tier: "Kelas",
    tierName: (tier: string) => tiers.get(tier) ?? tier,
    provider: "Penyedia",
    maxOutput: "Keluaran terbanyak",
    formats: "Format yang dilayani",
    fallback: "Model pengganti, berurutan",
    noFallback: "tidak ada",
    prices: "Harga per satu juta token",
    from: (day: string) => `Mulai ${day}:`,
    next: (time: string) => `Harga mulai ${time}`,
    toPlayground: "Coba di Ruang coba",
    calculator: "Kalkulator biaya",
    calculatorHint: "Untuk satu panggilan. Token dihitung oleh model; jumlah di sini adalah perkiraan Anda.",
    inputTokens: "Token masukan",
    cachedTokens: "Dibaca dari cache",
    outputTokens: "Token keluaran",
    callsPerDay: "Panggilan per hari",
    perCall: "Per panggilan",
    perDay: "Per hari",
    perMonth: "Per 30 hari",
    wholeNumber: "Isi dengan bilangan bulat, 0 atau lebih.",
    tooMuchCached: "Tidak boleh melebihi token masukan.",
  },
  en: {
    title: "Models",
    intro: "Prices per million tokens, in Rupiah. You pay these and nothing else, from one balance.",
    search: "Search models",
    searchHint: "Name or ID",
    can: "Capabilities",
    capabilities: {
      vision: "Images",
      tools: "Tools",
      structured_outputs: "Structured outputs",
      web_search: "Web search",
    },
    reasoning: "Reasoning",
    format: "Format",
    anyFormat: "All formats",
    sort: "Sort by",
    sorts: {
      name: "Name",
      input: "Cheapest input",
      output: "Cheapest output",
      context: "Largest context",
    },
    shown: (count: string, all: string) => `${count} of ${all} models`,
    none: "No model matches",
    noneHint: "Change the search or take filters away.",
    reset: "Clear filters",
    columns: {
      model: "Model",
      context: "Context",
      input: "Input",
      output: "Output",
      cacheRead: "Cache read",
      cacheWrite: "Cache write",
      can: "Capabilities",
    },
    unknown: "not published",
    tokens: (count: string) => `${count} tokens`,
    modelId: "Model ID",
    details: "Details",
    tier: "Tier",
    tierName: (tier: string) => tier,
    provider: "Provider",
    maxOutput: "Largest output",
    formats: "Served in",
    fallback: "Fallback models, in order",
    noFallback: "none",
    prices: "Prices per million tokens",
    from: (day: string) => `From ${day}:`,
    next: (time: string) => `Prices from ${time}`,
    toPlayground: "Try in the playground",
    calculator: "Cost calculator",
    calculatorHint: "For one call. Tokens are counted by the model; the numbers here are your estimate.",
    inputTokens: "Input tokens",
    cachedTokens: "Read from cache",
    outputTokens: "Output tokens",
    callsPerDay: "Calls per day",
    perCall: "Per call",
    perDay: "Per day",
    perMonth: "Per 30 days",
    wholeNumber: "Enter a whole number, 0 or more.",
    tooMuchCached: "Must not be more than the input tokens.",
  },
})
