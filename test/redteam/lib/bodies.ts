/** Bodies of odd shape, each of so many MiB; the mark says whose they are, where one gets through. */
const MIB = 2 ** 20

type Shape = (model: string, mib: number, mark: string) => Uint8Array

/** `before`, then the unit again and again up to the size, then `after`. */
export function filled(
  mib: number,
  before: string,
  unit: (index: number) => string,
  after: string,
  between = ",",
): Uint8Array {
  const size = mib * MIB - 64
  const bytes = Buffer.allocUnsafe(size)
  let at = bytes.write(before, 0, "latin1")
  const fixed = unit(0) === unit(1)
  const one = fixed ? between + unit(0) : ""
  at += bytes.write(unit(0), at, "latin1")
  for (let index = 1; ; index++) {
    const text = fixed ? one : between + unit(index)
    if (at + text.length + after.length > size) break
    at += bytes.write(text, at, "latin1")
  }
  at += bytes.write(after, at, "latin1")
  return bytes.subarray(0, at)
}

const chat = (model: string, rest: string) => `{"model":"${model}","max_tokens":16,${rest}`
const hello = (mark: string) => `"messages":[{"role":"user","content":"hi ${mark}"}]`

export const bodies = {
  tinyMessages: (model, mib) => filled(mib, chat(model, `"messages":[`), () => `{"role":"user","content":"a"}`, `]}`),
  distinctKeys: (model, mib, mark) =>
    filled(mib, chat(model, `${hello(mark)},`), (index) => `"k${index.toString(36)}":0`, `}`),
  distinctKeysNested: (model, mib, mark) =>
    filled(mib, chat(model, `${hello(mark)},"unknown":{`), (index) => `"k${index.toString(36)}":0`, `}}`),
  tinyTools: (model, mib, mark) =>
    filled(
      mib,
      chat(model, `${hello(mark)},"tools":[`),
      (index) => `{"name":"t${index.toString(36)}","input_schema":{"type":"object"}}`,
      `]}`,
    ),
  toolCalls: (model, mib) =>
    filled(
      mib,
      chat(model, `"messages":[{"role":"user","content":"hi"},`),
      (index) =>
        `{"role":"assistant","content":null,"tool_calls":[{"id":"c${index}","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c${index}","content":"x"}`,
      `]}`,
    ),
  emptyObjects: (model, mib, mark) => filled(mib, chat(model, `${hello(mark)},"unknown":[`), () => `{}`, `]}`),
  emptyArrays: (model, mib, mark) => filled(mib, chat(model, `${hello(mark)},"unknown":[`), () => `[]`, `]}`),
  numbers: (model, mib, mark) => filled(mib, chat(model, `${hello(mark)},"unknown":[`), () => `1`, `]}`),
  tinyParts: (model, mib) =>
    filled(mib, chat(model, `"messages":[{"role":"user","content":[`), () => `{"type":"text","text":"a"}`, `]}]}`),
  longString: (model, mib, mark) =>
    filled(mib, chat(model, `"messages":[{"role":"user","content":"${mark}`), () => `word `, `"}]}`, ""),
  escapes: (model, mib, mark) =>
    filled(mib, chat(model, `"messages":[{"role":"user","content":"${mark}`), () => `\\u0041`, `"}]}`, ""),
  quotes: (model, mib, mark) =>
    filled(mib, chat(model, `"messages":[{"role":"user","content":"${mark}`), () => `\\"`, `"}]}`, ""),
  /** As many values as are allowed at most, each of them long. */
  fewLongMessages: (model, mib) => {
    const content = "lorem ipsum ".repeat(14)
    return filled(mib, chat(model, `"messages":[`), () => `{"role":"user","content":"${content}"}`, `]}`)
  },
  /** Just under the limit of values, all of them to be translated. */
  mostMessages: (model, mib) => {
    const content = "lorem ipsum ".repeat(Math.max(1, Math.floor((mib * MIB) / 39_000 / 12) - 3))
    return filled(mib, chat(model, `"messages":[`), () => `{"role":"user","content":"${content}"}`, `]}`)
  },
  noJson: (_model, mib) => filled(mib, "[", () => "[", "", ""),
  whiteSpace: (model, mib, mark) => filled(mib, chat(model, hello(mark)), () => " \n", "}", ""),
} as const satisfies Record<string, Shape>

export type ShapeName = keyof typeof bodies
