import { expect, test } from "bun:test"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { Failure } from "../../src/failure/failure.ts"
import type { FailureCode } from "../../src/failure/table.ts"
import { BackendHealth, type FailureClass, HEALTH_MINUTES } from "../../src/gateway/backend-health.ts"
import { connectionFault, type Fault } from "../../src/upstream/client.ts"

const answered = { kind: "answered" } as const
const failed = (fault: Partial<Fault> = {}) => ({
  kind: "failed" as const,
  fault: { ...connectionFault(false), ...fault },
})
const refused = (code: FailureCode, status: number) => failed({ failure: new Failure(code), status })
const timedOut = new Failure("dependency.upstream_unavailable", { stream: "upstream_timeout" })

test("each failure has its class", () => {
  const cases: [FailureClass, ReturnType<typeof failed>][] = [
    ["rate_limited", refused("upstream.rate_limited", 429)],
    ["refused_request", refused("upstream.invalid_request", 400)],
    ["refused_request", refused("upstream.context_length_exceeded", 400)],
    ["needs_attention", failed({ alert: true, status: 401 })],
    ["timeout", failed({ failure: timedOut })],
    ["unreachable", failed()],
    ["server_error", refused("dependency.upstream_unavailable", 503)],
    ["broken_answer", failed({ opened: true })],
  ]
  for (const [name, end] of cases) {
    const health = new BackendHealth(new VirtualClock())
    health.watch("first", "a-model").ended(end, false)
    const [view] = health.views()
    expect([view?.failures[name], view?.calls, view?.lastFailure?.class]).toEqual([1, 1, name])
  }
})

test("the time to the first content is told within a tenth, half and nineteen of twenty", () => {
  const clock = new VirtualClock()
  const health = new BackendHealth(clock)
  for (let ms = 10; ms <= 1_000; ms += 10) {
    const watch = health.watch("first", "a-model")
    clock.advance(ms)
    watch.content()
    clock.advance(50)
    watch.content()
    watch.ended(answered, false)
  }
  const [view] = health.views()
  expect(view?.p50Ms).toBeWithin(500, 551)
  expect(view?.p95Ms).toBeWithin(950, 1_046)
})

test("what was minutes ago is forgotten, but for the last failure, and takes no more room", () => {
  const clock = new VirtualClock()
  const health = new BackendHealth(clock)
  const at = clock.now()
  health.watch("first", "a-model").ended(failed({ status: 500 }), false)
  clock.advance((HEALTH_MINUTES - 1) * 60_000)
  expect(health.views()[0]?.calls).toBe(1)
  clock.advance(60_000)
  for (let minutes = 0; minutes < 3 * HEALTH_MINUTES; minutes++) {
    health.watch("first", "a-model").ended(answered, false)
    clock.advance(60_000)
  }
  const [view] = health.views()
  expect(view).toMatchObject({ answered: HEALTH_MINUTES - 1, calls: HEALTH_MINUTES - 1 })
  expect(view?.lastFailure).toEqual({ at, class: "server_error", status: 500 })
})

test("a try that nobody wanted any more says nothing, an answer that came all the same does", () => {
  const health = new BackendHealth(new VirtualClock())
  health.watch("first", "a-model").ended(failed(), true)
  expect(health.views()).toEqual([])
  health.watch("first", "a-model").ended(answered, true)
  expect(health.views()).toMatchObject([{ calls: 1, answered: 1 }])
})

test("what it came to since the beginning is told too, by member and model, and each try when it ends", () => {
  const clock = new VirtualClock()
  const heard: unknown[] = []
  const health = new BackendHealth(clock, (...told) => heard.push(told))
  const watch = health.watch("first", "a-model")
  clock.advance(30)
  watch.content()
  watch.ended(answered, false)
  health.watch("first", "a-model").ended(refused("upstream.invalid_request", 400), false)
  health.watch("first", "a-model").ended(failed(), false)
  health.watch("first", "b-model").ended(failed(), false)
  expect(heard).toEqual([
    ["first", "a-model", "answered", 30],
    ["first", "a-model", "refused_request", undefined],
    ["first", "a-model", "unreachable", undefined],
    ["first", "b-model", "unreachable", undefined],
  ])
  clock.advance(HEALTH_MINUTES * 60_000)
  expect(health.views()).toMatchObject([
    { member: "first", model: "a-model", calls: 0, everAnswered: 1, everFailed: 1, p50Ms: undefined },
    { member: "first", model: "b-model", calls: 0, everAnswered: 0, everFailed: 1 },
  ])
})

const of = (model: string, id: string) => ({ model, member: { id } })

test("a member that the catalogue has no more is forgotten, and begins anew when it is there again", () => {
  const health = new BackendHealth(new VirtualClock())
  const told = () => health.views().map(({ member, model, everFailed }) => `${member} of ${model}: ${everFailed}`)
  for (const { model, member } of [of("a", "first"), of("a", "second"), of("b", "first")])
    health.watch(member.id, model).ended(failed(), false)
  const late = health.watch("second", "a")
  health.replace([of("a", "first"), of("b", "first"), of("b", "third")])
  expect(told()).toEqual(["first of a: 1", "first of b: 1"])
  // One that was under way ends at its own time, and is forgotten with the next change.
  late.ended(failed(), false)
  expect(told()).toEqual(["first of a: 1", "first of b: 1", "second of a: 1"])
  health.replace([of("b", "first")])
  expect(told()).toEqual(["first of b: 1"])
})
