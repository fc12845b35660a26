import { describe, expect, test } from "bun:test"
import type { SseEvent } from "../../src/wire/sse.ts"
import { bytesOf, fixture, type Format, kinds, oneByteEach, parse, replay, sent } from "./replay.ts"

const tokens = (input: number, cacheRead: number, cacheWrite: number, output: number) => ({
  input,
  cacheRead,
  cacheWrite,
  output,
})

/** Fixture, its steps in letters (see `kinds`), its tokens. */
const recorded: [string, string, ReturnType<typeof tokens> | undefined][] = [
  ["chat/text", "pCCttT", tokens(176, 1024, 0, 30)],
  ["chat/parallel-tools", "pCCCCCttT", tokens(310, 0, 0, 44)],
  ["chat/reasoning", "pCCtT", tokens(4, 16, 0, 60)],
  ["chat/refusal", "pCttT", tokens(40, 0, 0, 9)],
  ["chat/length-crlf", "pCttT", tokens(11, 0, 0, 16)],
  ["chat/error", "pCFt", undefined],
  ["chat/overflow", "Fp", undefined],
  ["messages/text", "pppCCttT", tokens(25, 0, 0, 15)],
  ["messages/parallel-tools", "pppCtCtCtCCttT", tokens(472, 0, 0, 89)],
  ["messages/thinking-cache", "ppCtttCttT", tokens(12, 9000, 300, 210)],
  ["messages/web-search", "pCCtCttCCttT", tokens(10_682, 0, 0, 510)],
  ["messages/refusal", "ppCttT", tokens(564, 0, 0, 22)],
  ["messages/error", "ppCF", undefined],
  ["responses/text", "ppppCCCtCT", tokens(36, 0, 0, 87)],
  ["responses/reasoning-tools", "ppppCCCCCCCCCCCT", tokens(208, 1792, 0, 120)],
  ["responses/incomplete", "ppppCCtCT", tokens(12, 0, 0, 16)],
  ["responses/refusal", "pppCCT", tokens(50, 0, 0, 10)],
  ["responses/failed", "ppF", tokens(70, 0, 0, 0)],
  ["responses/error", "ppF", undefined],
]

describe.each(recorded)("%s", (name, letters, counted) => {
  const format = name.slice(0, name.indexOf("/")) as Format

  test("every event is told for what it is, and the tokens are counted", async () => {
    const { steps, reader } = replay(format, [await fixture(`${name}.sse`)])
    expect(kinds(steps)).toBe(letters)
    expect(reader.tokens()).toEqual(counted)
  })

  test("one byte at a time, and cut in two at every byte, the steps are the same", async () => {
    const bytes = await fixture(`${name}.sse`)
    const whole = replay(format, [bytes]).steps
    expect(replay(format, oneByteEach(bytes)).steps).toEqual(whole)
    for (let cut = 1; cut < bytes.length; cut++) {
      const { steps } = replay(format, [bytes.subarray(0, cut), bytes.subarray(cut)])
      if (!Bun.deepEquals(steps, whole)) expect([cut, steps]).toEqual([cut, whole])
    }
  })

  test("broken off at any byte, the steps are those of the whole up to a failure, and never an end", async () => {
    const bytes = await fixture(`${name}.sse`)
    const whole = replay(format, [bytes]).steps
    const wholeTerminal = whole.findIndex(({ kind }) => kind === "terminal")
    for (let cut = 1; cut < bytes.length; cut++) {
      const { steps } = replay(format, [bytes.subarray(0, cut)])
      const broken = steps.findIndex((step, at) => step.kind === "failure" && !Bun.deepEquals(step, whole[at]))
      // A failure can only stand where the cut fell; everything before it is as in the whole stream.
      if (broken !== -1) expect(broken).toBe(steps.length - 1)
      const before = broken === -1 ? steps : steps.slice(0, broken)
      if (!Bun.deepEquals(before, whole.slice(0, before.length))) expect([cut, before]).toEqual([cut, whole])
      if (before.length <= wholeTerminal) expect(before.some(({ kind }) => kind === "terminal")).toBe(false)
    }
  })

  test("the client sees the catalogue's model id and nothing of the backend's", async () => {
    const { steps } = replay(format, [await fixture(`${name}.sse`)])
    expect(sent(steps)).not.toContain("backend-model")
    for (const step of steps) {
      if (step.kind !== "failure") continue
      expect(step.failure.message).not.toMatch(/backend-model|org-XyZ|help\.example\.com|Overloaded/)
    }
  })

  test("and so where the backend leaves its own out", async () => {
    const named = await fixture(`${name}.sse`)
    const bytes = bytesOf(new TextDecoder().decode(named).replaceAll(/,"model":"backend-model[^"]*"/g, ""))
    expect(told(format, bytes)).toEqual(told(format, named))
  })

  test("apart from the model and chat's usage, the client gets each event as the backend sent it", async () => {
    const bytes = await fixture(`${name}.sse`)
    const { steps } = replay(format, [bytes], { includeUsage: true, model: "M" })
    const end = steps.findIndex(({ kind }) => kind === "failure" || kind === "terminal")
    const stop = steps[end]?.kind === "terminal" ? end + 1 : end
    const original = parse([bytes]).slice(0, stop)
    expect(parse([bytesOf(sent(steps))]).map(read)).toEqual(
      original.map(({ event, data }) =>
        read({ event, data: data.replace(/"model":"backend-model[^"]*"/, '"model":"M"') }),
      ),
    )
  })
})

const told = (format: Format, stream: Uint8Array) => parse([bytesOf(sent(replay(format, [stream]).steps))]).map(read)

/** Writing JSON anew may turn `1.0` into `1`, so data is compared as what it says. */
const read = ({ event, data }: SseEvent) => ({ event, data: data === "[DONE]" ? data : JSON.parse(data) })
