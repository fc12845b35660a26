/** What a model is to answer with: the model, its prompt, how it answers; and the same request as code. */
import type { CatalogueModel } from "../../api/queries.ts"
import { Dialog } from "../../components/dialog.tsx"
import { Field, SelectField, TextField } from "../../components/form.tsx"
import { CodeBlock, Tabs } from "../../components/layout.tsx"
import { useFormat, useLanguage } from "../../i18n/language.tsx"
import { parseWhole } from "../../i18n/figures.ts"
import { perMillion } from "../models/choose.ts"
import { type Asked, bodyOf, type Sampling } from "./stream.ts"
import { usePlaygroundText } from "./text.ts"

export interface WrittenSettings {
  /** Undefined for the first model. */
  readonly model: string | undefined
  readonly system: string
  readonly limit: string
  /** Empty for what the model does by itself. */
  readonly temperature: string
  readonly topP: string
}

export const unwritten: WrittenSettings = { model: undefined, system: "", limit: "1024", temperature: "", topP: "" }

const MAX_TEMPERATURE = 2
const MAX_TOP_P = 1

/** What is typed, or undefined and why where this model does not allow it. */
export function useSampling(written: WrittenSettings, model: CatalogueModel) {
  const text = usePlaygroundText()
  const format = useFormat()
  const { language } = useLanguage()
  const limit = parseWhole(written.limit, language)
  const wrong = {
    limit:
      limit === undefined || limit < 1 || limit > model.max_output_tokens
        ? text.limitWrong(format.number(model.max_output_tokens))
        : undefined,
    temperature: isFraction(written.temperature, MAX_TEMPERATURE) ? undefined : text.fractionWrong(MAX_TEMPERATURE),
    topP: isFraction(written.topP, MAX_TOP_P) ? undefined : text.fractionWrong(MAX_TOP_P),
  }
  const [name, why] = Object.entries(wrong).find(([, each]) => each !== undefined) ?? []
  const sampling: Sampling | undefined =
    limit === undefined || why !== undefined
      ? undefined
      : { limit, temperature: parseFraction(written.temperature), topP: parseFraction(written.topP) }
  return { wrong, sampling, problem: why && `${text[name as keyof typeof wrong]}: ${why}` }
}

/** Both languages' marks mean the same here: no such number has groups of digits. */
const parseFraction = (typed: string): number | undefined =>
  /^\d(?:[.,]\d{1,2})?$/.test(typed.trim()) ? Number(typed.trim().replace(",", ".")) : undefined

const isFraction = (typed: string, most: number): boolean =>
  typed.trim() === "" || (parseFraction(typed) ?? Infinity) <= most

interface SettingsProps {
  readonly models: readonly CatalogueModel[]
  readonly model: CatalogueModel
  readonly written: WrittenSettings
  readonly onChange: (written: WrittenSettings) => void
}

export function Settings({ models, model, written, onChange }: SettingsProps) {
  const text = usePlaygroundText()
  const format = useFormat()
  const { wrong } = useSampling(written, model)
  const set = (change: Partial<WrittenSettings>) => onChange({ ...written, ...change })
  return (
    <>
      <SelectField
        label={text.model}
        hint={text.price(format.rupiah(perMillion(model.input_micro)), format.rupiah(perMillion(model.output_micro)))}
        value={model.model}
        options={models.map((candidate) => ({ value: candidate.model, label: candidate.display_name }))}
        onChange={({ target }) => set({ model: target.value })}
      />
      <Field label={text.system} optional>
        {(attributes) => (
          <span className="input">
            <textarea
              rows={3}
              placeholder={text.systemPlaceholder}
              value={written.system}
              onChange={({ target }) => set({ system: target.value })}
              {...attributes}
            />
          </span>
        )}
      </Field>
      <TextField
        label={text.limit}
        inputMode="numeric"
        autoComplete="off"
        after={text.limitUnit}
        error={wrong.limit}
        value={written.limit}
        onChange={({ target }) => set({ limit: target.value })}
      />
      {(["temperature", "topP"] as const).map((name) => (
        <TextField
          key={name}
          label={text[name]}
          optional
          inputMode="decimal"
          autoComplete="off"
          placeholder={text.byModel}
          error={wrong[name]}
          value={written[name]}
          onChange={({ target }) => set({ [name]: target.value })}
        />
      ))}
    </>
  )
}

interface CodeProps {
  readonly asked: Omit<Asked, "key">
  readonly onClose: () => void
}

/**
 * "Get the code": the request that would be sent now, as text for a terminal and for both SDKs. The key is a
 * variable.
 */
export function CodeDialog({ asked, onClose }: CodeProps) {
  const text = usePlaygroundText()
  const { body, images } = withoutImages(bodyOf(asked))
  const base = `${location.origin}/v1`
  const tabs = [
    { id: "curl", label: "curl", content: <CodeBlock title={text.terminal} code={curl(base, body)} /> },
    { id: "python", label: "Python", content: <CodeBlock title="pip install openai" code={python(base, body)} /> },
    {
      id: "typescript",
      label: "TypeScript",
      content: <CodeBlock title="npm install openai" code={typescript(base, body)} />,
    },
  ]
  return (
    <Dialog title={text.getCode} onClose={onClose}>
      <p className="field-hint">{text.codeHint}</p>
      {images > 0 && <p className="field-hint">{text.codeImages}</p>}
      <Tabs label={text.getCode} tabs={tabs} />
    </Dialog>
  )
}

type Body = ReturnType<typeof bodyOf>

/** An image is up to a megabyte of base64, which nobody wants to copy: `<IMAGE_1>` stands for it. */
function withoutImages(body: Body): { readonly body: Body; readonly images: number } {
  let images = 0
  const named = JSON.stringify(body, (name, value: unknown) =>
    name === "url" && typeof value === "string"
      ? value.replace(/^(data:image\/[a-z]+;base64,).*$/s, (_, head: string) => `${head}<IMAGE_${++images}>`)
      : value,
  )
  return { body: JSON.parse(named) as Body, images }
}

/** In single quotes a shell reads everything as it is, but a single quote. */
const curl = (base: string, body: Body): string =>
  `curl -N ${base}/chat/completions \\
  -H "Authorization: Bearer $LOKET_API_KEY" \\
  -H 'Content-Type: application/json' \\
  -d '${JSON.stringify(body, null, 2).replaceAll("'", String.raw`'\''`)}'`

const python = (base: string, body: Body): string => `import os
from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(base)}, api_key=os.environ["LOKET_API_KEY"])
stream = client.chat.completions.create(
${Object.entries(body)
  // A string of JSON is one of Python, too; there is no null in the body, and the one boolean is `stream`.
  .map(([name, value]) => `    ${name}=${value === true ? "True" : indented(JSON.stringify(value, null, 4), 4)},`)
  .join("\n")}
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)`

const typescript = (base: string, body: Body): string => `import OpenAI from "openai"

const client = new OpenAI({ baseURL: ${JSON.stringify(base)}, apiKey: process.env.LOKET_API_KEY })
const stream = await client.chat.completions.create({
${Object.entries(body)
  .map(([name, value]) => `  ${name}: ${indented(JSON.stringify(value, null, 2), 2)},`)
  .join("\n")}
})
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? "")`

/** All lines but the first one. Line breaks within strings are escaped, so none is touched. */
const indented = (text: string, by: number): string => text.replaceAll("\n", `\n${" ".repeat(by)}`)
