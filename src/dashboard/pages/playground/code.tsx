/** "Get the code": the request that would be sent now, as text for a terminal and for both SDKs. The key is a variable. */
import { Dialog } from "../../components/dialog.tsx"
import { CodeBlock } from "../../components/layout.tsx"
import { Tabs } from "../../components/tabs.tsx"
import { type Asked, bodyOf } from "./stream.ts"
import { usePlaygroundText } from "./text.ts"

interface CodeProps {
  readonly asked: Omit<Asked, "key">
  readonly onClose: () => void
}

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
