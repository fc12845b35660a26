import { expect, test } from "bun:test"
import { assert, property, string } from "fast-check"
import { randomId, readTraceParent, writeTraceParent } from "../../src/traces/tracing.ts"

const TRACE = "0af7651916cd43dd8448eb211c80319c"
const SPAN = "b7ad6b7169203331"

test("a header is read as W3C Trace Context has it", () => {
  expect(readTraceParent(`00-${TRACE}-${SPAN}-01`)).toEqual({ traceId: TRACE, spanId: SPAN, sampled: true })
  expect(readTraceParent(`00-${TRACE}-${SPAN}-00`)?.sampled).toBe(false)
  expect(readTraceParent(`00-${TRACE}-${SPAN}-02`)?.sampled).toBe(false)
  expect(readTraceParent(`00-${TRACE}-${SPAN}-ff`)?.sampled).toBe(true)
})

test("a later version is read as far as it is known", () => {
  for (const later of ["", "-", "-what-it-says", `-${"x".repeat(456)}`])
    expect(readTraceParent(`01-${TRACE}-${SPAN}-01${later}`)).toEqual({ traceId: TRACE, spanId: SPAN, sampled: true })
})

const malformed: readonly (string | null)[] = [
  null,
  "",
  `00-${TRACE}-${SPAN}`,
  `00-${TRACE}-${SPAN}-1`,
  `00-${TRACE}-${SPAN}-01-`,
  `00-${TRACE}-${SPAN}-01-more`,
  `01-${TRACE}-${SPAN}-01more`,
  `01-${TRACE}-${SPAN}-01-${"x".repeat(457)}`,
  `ff-${TRACE}-${SPAN}-01`,
  `00-${TRACE.toUpperCase()}-${SPAN}-01`,
  `00-${"0".repeat(32)}-${SPAN}-01`,
  `00-${TRACE}-${"0".repeat(16)}-01`,
  `00-${TRACE.slice(1)}g-${SPAN}-01`,
  ` 00-${TRACE}-${SPAN}-01`,
  `00-${TRACE}-${SPAN}-01, 00-${TRACE}-${SPAN}-01`,
  `00-${TRACE}-${SPAN}-0x`,
]
test.each(malformed)("%p counts as none", (header) => {
  expect(readTraceParent(header)).toBeUndefined()
})

test("what is written is read again, and nothing else makes it throw", () => {
  const parent = { traceId: randomId(16), spanId: randomId(8), sampled: true }
  expect(readTraceParent(writeTraceParent(parent))).toEqual(parent)
  expect(readTraceParent(writeTraceParent({ ...parent, sampled: false }))).toEqual({ ...parent, sampled: false })
  assert(property(string({ maxLength: 600 }), (header) => void readTraceParent(header)))
})
