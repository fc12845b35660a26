/** Who of a pool is asked after a failure, and what a seat takes and gives back (docs/operating/pools.md). In virtual time. */
import { expect, test } from "bun:test"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { whole } from "../../actors/lease.ts"
import type { Model, Provider, Upstream } from "../../src/catalogue/model.ts"
import { Failure } from "../../src/failure/failure.ts"
import type { FailureCode } from "../../src/failure/table.ts"
import { MemberSelector, Seat } from "../../src/gateway/member-selector.ts"
import { Pools } from "../../src/gateway/pools.ts"
import { connectionFault, type Fault } from "../../src/upstream/client.ts"
import type { Backend } from "../../src/upstream/providers.ts"
import type { Exchange } from "../../src/wire/exchange.ts"

const provider = (id: string, credentials: readonly string[]): Provider => ({
  id,
  label: id,
  baseUrl: "http://127.0.0.1:1",
  credentials: credentials.map((name) => ({
    name,
    key: { env: "X" },
    weight: 1,
  })) as unknown as Provider["credentials"],
  headers: {},
})
/** The credential of `narrow` takes one call at a time. */
const backends = new Map<string, readonly Backend[]>(
  [provider("one", ["a"]), provider("two", ["a", "b"]), provider("three", ["a"]), provider("narrow", ["a"])].map(
    (each) => [
      each.id,
      each.credentials.map((credential) => ({
        provider: each,
        credential: each.id === "narrow" ? { ...credential, maxConcurrency: 1 } : credential,
        apiKey: "x",
      })),
    ],
  ),
)

/** The first upstreams are asked first. */
function pooled(...upstreams: Partial<Upstream>[]) {
  const clock = new VirtualClock()
  const disabled = new Set<string>()
  const occurred: string[] = []
  const pools = new Pools({
    backends,
    clock,
    share: () => whole,
    onOccurrence: ({ member, event }) => occurred.push(`${member} ${event}`),
    setting: (member) =>
      disabled.has(member) ? { member, state: "disabled", weight: undefined, retriedAt: undefined } : undefined,
  })
  const model = {
    id: "m",
    maxConcurrency: 100,
    upstreams: upstreams.map((each, index) => ({ format: "chat", model: "m", weight: 1, priority: -index, ...each })),
  } as unknown as Model
  const selector = (cannotSay: readonly string[] = [], serves?: (upstream: Upstream) => boolean) =>
    new MemberSelector({
      pools,
      pool: pools.of(model),
      conversation: 1,
      serves,
      exchange: ({ model: name }) =>
        cannotSay.includes(name) ? new Failure("request.unsupported_feature") : ({} as Exchange),
    })
  /** A seat that there is at once. */
  const seated = async (members = selector(), tokens = 1) => {
    const seat = await members.acquire(tokens, 0, () => false)
    return seat instanceof Seat ? seat : undefined
  }
  const disable = (member: string) => {
    disabled.add(member)
    pools.all(model)
  }
  return { clock, pools, selector, seated, disable, occurred }
}

const fault = (code: FailureCode, more: Partial<Fault> = {}): Fault => ({
  ...connectionFault(false),
  failure: new Failure(code),
  ...more,
})
const broken = fault("dependency.upstream_unavailable", { status: 500 })
const refusedKey = fault("dependency.upstream_unavailable", { status: 401, alert: true })
const tooLong = fault("upstream.context_length_exceeded", { status: 400 })

/** Who is asked, one after the other, while each fails like this. */
async function course(
  members: MemberSelector,
  failure: Fault,
  seated: (members: MemberSelector) => Promise<Seat | undefined>,
) {
  const asked: string[] = []
  for (let seat = await seated(members); seat !== undefined; seat = await members.failover(seat, failure)) {
    asked.push(seat.member.id)
    seat.onFailure(failure)
    seat.release()
  }
  return asked
}

test.each([
  ["that is broken, every other one", broken, ["one/a/m", "one/a/n", "two/a/m", "two/b/m", "three/a/m"]],
  ["whose credential is refused, those with another", refusedKey, ["one/a/m", "two/a/m", "two/b/m", "three/a/m"]],
  ["that finds it too long, other backends", tooLong, ["one/a/m", "one/a/n", "two/a/m", "three/a/m"]],
  ["that takes no such request, nobody", fault("upstream.invalid_request", { status: 400 }), ["one/a/m"]],
] as const)("after a member %s", async (_, failure, expected) => {
  const { selector, seated } = pooled(
    { provider: "one" },
    { provider: "one", model: "n" },
    { provider: "two" },
    { provider: "three" },
  )
  const asked = await course(selector(), failure, seated)
  // Of the credentials of one upstream either may come first.
  expect(asked.map((id) => id.replace("two/b", "two/a")).toSorted()).toEqual(
    expected.map((id) => id.replace("two/b", "two/a")).toSorted(),
  )
  expect(asked[0]).toBe("one/a/m")
})

test("a member whose format cannot say the request is passed over", async () => {
  const { selector, seated } = pooled({ provider: "one", model: "mute" }, { provider: "two" })
  expect((await seated(selector(["mute"])))?.member.id).toMatch(/^two/)
  expect(await selector(["mute", "m"]).firstExchange()).toBeInstanceOf(Failure)
})

test("a member that does not serve what is asked is passed over", async () => {
  const { selector, seated } = pooled({ provider: "one" }, { provider: "three" })
  const asked = selector([], ({ provider }) => provider === "three")
  expect((await seated(asked))?.member.id).toBe("three/a/m")
  expect(await asked.firstExchange()).toBeDefined()
  const unserved = selector([], () => false)
  expect([await unserved.firstExchange(), await seated(unserved)]).toEqual([undefined, undefined])
})

test("a refused credential is passed over by the next calls too, with whichever model it is asked", async () => {
  const { seated } = pooled({ provider: "one" }, { provider: "one", model: "n" }, { provider: "three" })
  const seat = (await seated())!
  seat.onFailure(refusedKey)
  seat.release()
  expect((await seated())?.member.id).toBe("three/a/m")
})

test("after a failure no member is asked that is not well, although one call of those that come may be", async () => {
  const { selector, seated } = pooled({ provider: "one" }, { provider: "three" })
  const sick = selector()
  await seated(sick)
  const away = (await sick.failover((await seated())!, broken))!
  expect(away.member.id).toBe("three/a/m")
  for (let failures = 0; failures < 3; failures++) away.onFailure(broken)
  away.release()
  const members = selector()
  expect(await members.failover((await seated(members))!, broken)).toBeUndefined()
})

test("content of a call from before a circuit opened says nothing of how things are now", async () => {
  const { clock, seated } = pooled({ provider: "one" }, { provider: "three" })
  clock.advance(1_000)
  const [early, failing] = [(await seated())!, (await seated())!]
  clock.advance(1_000)
  for (let failures = 0; failures < 3; failures++) failing.onFailure(broken)
  early.onContent()
  expect((await seated())?.member.id).toBe("three/a/m")
})

test("a tenth of many calls may be asked again", async () => {
  const { clock, pools, seated } = pooled({ provider: "one" }, { provider: "three" })
  for (let calls = 0; calls < 500; calls++) (await seated())?.release()
  let retries = 0
  while (pools.budget.take(clock.monotonic())) retries++
  expect(retries).toBe(50)
})

test("without a budget for retries nobody else is asked, but for the call that found out about a member", async () => {
  const { clock, pools, selector, seated } = pooled({ provider: "one" }, { provider: "three" })
  const spend = () => {
    while (pools.budget.take(clock.monotonic()));
  }
  spend()
  const members = selector()
  const seat = (await seated(members))!
  expect(await members.failover(seat, broken)).toBeUndefined()
  expect(members.mayRetrySame()).toBeFalse()
  for (let failures = 0; failures < 3; failures++) seat.onFailure(broken)
  seat.release()
  clock.advance(5_000)
  spend()
  const later = selector()
  const probe = (await seated(later))!
  expect([probe.member.id, probe.isProbe]).toEqual(["one/a/m", true])
  expect((await later.failover(probe, broken))?.member.id).toBe("three/a/m")
})

test("a seat is given back once, whoever waits for it has it at once, and who left does not", async () => {
  const { clock, selector, seated } = pooled(
    { provider: "one", maxConcurrency: 1 },
    { provider: "three", maxConcurrency: 1 },
  )
  const first = (await seated())!
  const second = (await seated())!
  expect([first.member.id, second.member.id]).toEqual(["one/a/m", "three/a/m"])
  expect(await seated()).toBeUndefined()
  second.release()
  // Who may wait does not, where there is room.
  const again = selector().acquire(1, 10_000, () => false)
  expect(again).toBeInstanceOf(Seat)
  const began = clock.monotonic()
  const left = Promise.resolve(selector().acquire(1, 10_000, () => true))
  const waiting = Promise.resolve(selector().acquire(1, 10_000, () => false))
  if (again instanceof Seat) again.release()
  second.release()
  const third = await waiting
  expect([third instanceof Seat && third.member.id, clock.monotonic() - began]).toEqual(["three/a/m", 0])
  expect(await seated()).toBeUndefined()
  for (let n = 0; n < 50; n++) {
    clock.advance(250)
    for (let turn = 0; turn < 5; turn++) await Promise.resolve()
  }
  expect(await left).toBeUndefined()
})

test("a member's minute counts each request, and its tokens as they come to", async () => {
  const { clock, selector, seated } = pooled(
    { provider: "one", requestsPerMinute: 3, tokensPerMinute: 1_000 },
    { provider: "three", requestsPerMinute: 0 },
  )
  const seat = (await seated(selector(), 100))!
  seat.requestSent()
  expect(selector().hasCapacityFor(900)).toBeTrue()
  expect(selector().hasCapacityFor(901)).toBeFalse()
  clock.advance(1_000)
  seat.requestSent()
  expect(selector().hasCapacityFor(800)).toBeTrue()
  expect(selector().hasCapacityFor(801)).toBeFalse()
  seat.onSuccess(600)
  expect(selector().hasCapacityFor(300)).toBeTrue()
  expect(selector().hasCapacityFor(301)).toBeFalse()
  seat.onSuccess(undefined)
  seat.release()
  expect(selector().hasCapacityFor(300)).toBeTrue()
  expect(await seated(selector(), 1)).toBeDefined()
  expect(selector().hasCapacityFor(1)).toBeFalse()
})

test("a credential's limit holds for all that is asked with it", async () => {
  const { seated } = pooled({ provider: "narrow" }, { provider: "narrow", model: "n" }, { provider: "three" })
  const seat = (await seated())!
  expect([seat.member.id, (await seated())?.member.id]).toEqual(["narrow/a/m", "three/a/m"])
  seat.release()
  expect((await seated())?.member.id).toBe("narrow/a/m")
})

const failThrice = (seat: Seat) => {
  for (let failures = 0; failures < 3; failures++) seat.onFailure(broken)
  seat.release()
}

test.each([
  ["member", failThrice, 5_000, ["one/a/m opened", "one/a/m closed"]],
  [
    "credential",
    (seat: Seat) => {
      seat.onFailure(refusedKey)
      seat.release()
    },
    30_000,
    ["one/a credential_refused", "one/a credential_accepted"],
  ],
] as const)(
  "one call at a time finds out about a %s, and one that found out nothing lets the next",
  async (_, fail, openMs, events) => {
    const { clock, seated, occurred } = pooled({ provider: "one" }, { provider: "three", weight: 0 })
    const old = (await seated())!
    fail((await seated())!)
    clock.advance(openMs - 1)
    expect((await seated())?.member.id).toBe("three/a/m")
    clock.advance(1)
    const probe = (await seated())!
    expect([probe.member.id, probe.isProbe]).toEqual(["one/a/m", true])
    old.release()
    expect((await seated())?.member.id).toBe("three/a/m")
    probe.release()
    const again = (await seated())!
    expect([again.member.id, again.isProbe]).toEqual(["one/a/m", true])
    again.onContent()
    const other = (await seated())!
    expect([other.member.id, other.isProbe]).toEqual(["one/a/m", false])
    expect(occurred).toEqual([...events])
  },
)

test("a request that a member does not take says that the member is well", async () => {
  const { clock, seated } = pooled({ provider: "one" }, { provider: "three" })
  failThrice((await seated())!)
  clock.advance(5_000)
  const probe = (await seated())!
  probe.onFailure(fault("upstream.invalid_request", { status: 400 }))
  const other = (await seated())!
  expect([probe.isProbe, other.member.id, other.isProbe]).toEqual([true, "one/a/m", false])
})

test("failures that are less than half of what a member answers keep nobody away", async () => {
  const { seated } = pooled({ provider: "one" }, { provider: "three" })
  const seat = (await seated())!
  for (let answers = 0; answers < 4; answers++) seat.onSuccess(undefined)
  failThrice(seat)
  expect((await seated())?.member.id).toBe("one/a/m")
})

test.each([
  [7, 7_000],
  [undefined, 1_000],
])("a member that throttles and asks for %p seconds is left alone for %d ms", async (retryAfterS, forMs) => {
  const { clock, seated } = pooled({ provider: "one" }, { provider: "three" })
  const detail = retryAfterS === undefined ? {} : { retryAfterS }
  const throttled = { ...broken, failure: new Failure("upstream.rate_limited", detail), status: 429 }
  const seat = (await seated())!
  seat.onFailure(throttled)
  seat.release()
  clock.advance(forMs - 1)
  expect((await seated())?.member.id).toBe("three/a/m")
  clock.advance(1)
  expect((await seated())?.member.id).toBe("one/a/m")
})

test("a member that an operator took out is asked no more, by a call that has begun either", async () => {
  const { selector, seated, disable } = pooled({ provider: "one" }, { provider: "three" })
  const members = selector()
  await members.firstExchange()
  disable("one/a/m")
  expect((await seated(members))?.member.id).toBe("three/a/m")
  disable("three/a/m")
  expect(await selector().acquire(1, 1_000, () => false)).toMatchObject({ code: "dependency.upstream_unconfigured" })
})
