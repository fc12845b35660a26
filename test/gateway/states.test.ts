/** The table of a call's states, without a network: every state, every event; and what docs/reliability.md says of its end. */
import { describe, expect, test } from "bun:test"
import { Failure } from "../../src/failure/failure.ts"
import { type CallEvent, next, type State, states, table, StateMachine } from "../../src/gateway/states.ts"
import { type Cause, type Ending, endings, type State as PlayedState } from "../contract/endings.ts"

type EventType = CallEvent["type"]
const all = Object.keys(states) as State[]
const events = Object.keys(table) as EventType[]
const cells = all.flatMap((state) => events.map((event) => [state, event] as const))
const drawn = cells.flatMap(([state, event]) => {
  const to = table[event][state]
  return to === "impossible" ? [] : [{ state, event, to }]
})

/** In a call's order; none leads back. */
const order: readonly State[] = ["waiting", "trying", "relaying", "draining", "settling", "withdrawing", "done"]

describe("the table of states", () => {
  test("is total: every cell is a state, or an event that cannot come there and throws", () => {
    expect(order.toSorted()).toEqual(all.toSorted())
    for (const [state, event] of cells) {
      const to = table[event][state]
      expect([...all, "impossible"]).toContain(to)
      if (to === "impossible") expect(() => next(state, event)).toThrow(`a call that is ${state} heard of ${event}`)
      else expect(next(state, event)).toBe(to)
    }
  })

  test("never leads back", () => {
    for (const { state, to } of drawn) expect(order.indexOf(to)).toBeGreaterThanOrEqual(order.indexOf(state))
  })

  test("moves a call as drawn in the README, and no event beside those moves it", () => {
    const moves = drawn.filter(({ state, to }) => to !== state).map(({ state, event, to }) => `${state} ${event} ${to}`)
    const forwarded = ["trying", "relaying", "draining"]
    expect(moves.toSorted()).toEqual(
      [
        "waiting admitted trying",
        "waiting refused done",
        "waiting crashed done",
        "trying committed relaying",
        "trying client-left draining",
        "relaying client-left draining",
        ...forwarded.map((state) => `${state} ended settling`),
        ...[...forwarded, "settling"].map((state) => `${state} not-opened withdrawing`),
        ...[...forwarded, "settling"].map((state) => `${state} crashed withdrawing`),
        "settling settled done",
        "settling not-settled withdrawing",
        "withdrawing withdrawn done",
        "withdrawing crashed done",
      ].toSorted(),
    )
  })

  test("takes for a bug only what comes before it was begun, or twice: a call that hears of something late goes on", () => {
    const bugs = (state: State) => events.filter((event) => table[event][state] === "impossible").toSorted()
    const heardWhileWaiting = ["admitted", "refused", "client-left", "crashed"]
    expect(bugs("waiting")).toEqual(events.filter((event) => !heardWhileWaiting.includes(event)).toSorted())
    for (const state of ["trying", "relaying", "draining"] as const)
      expect(bugs(state)).toEqual(["admitted", "not-settled", "refused", "settled", "withdrawn"])
    expect(bugs("settling")).toEqual(["admitted", "ended", "refused", "withdrawn"])
    for (const state of ["withdrawing", "done"] as const) expect(bugs(state)).toEqual(["admitted", "refused"])
  })

  test("leads from the beginning to every state, and from every state to the end", () => {
    const reached = new Set<State>(["waiting"])
    for (const _ of all) for (const { state, to } of drawn) if (reached.has(state)) reached.add(to)
    expect([...reached].toSorted()).toEqual(all.toSorted())
    const ending = new Set<State>(["done"])
    for (const _ of all) for (const { state, to } of drawn) if (ending.has(to)) ending.add(state)
    expect([...ending].toSorted()).toEqual(all.toSorted())
  })

  test("survives a bug in any state, and charges nothing for it that is not durable", () => {
    for (const state of all) {
      const to = next(state, "crashed")
      expect(to).toBe(["waiting", "withdrawing", "done"].includes(state) ? "done" : "withdrawing")
    }
  })

  test("leaves a call that crashes over its own crashes, so that others have their turn", () => {
    const heard: string[] = []
    const bug = new Error("a bug")
    const errors: unknown[] = []
    const turns = new StateMachine((event) => {
      heard.push(event.type)
      if (event.type === "crashed") errors.push(event.error)
      throw bug
    })
    turns.receive({ type: "client-left" })
    expect(heard).toEqual(["client-left", ...Array.from({ length: 5 }, () => "crashed")])
    expect(errors).toEqual(Array.from({ length: 5 }, () => bug))
    expect(turns.state).toBe("done")
    turns.receive({ type: "heartbeat" })
    expect(heard.at(-1)).toBe("heartbeat")
  })

  test("hears of an event that a turn raises when that turn is over", () => {
    const heard: string[] = []
    const turns = new StateMachine(
      (event, before) => {
        heard.push(`${event.type} begins`)
        if (before === "waiting") turns.receive({ type: "not-opened" })
        heard.push(`${event.type} ends`)
      },
      { onEvent: ({ type }, state) => heard.push(`${type} told, ${state}`) },
    )
    turns.receive({ type: "refused", failure: new Failure("gateway.capacity") })
    const told = ["refused", "not-opened"].flatMap((type) => [`${type} begins`, `${type} ends`, `${type} told, done`])
    expect(heard).toEqual(told)
    turns.receive({ type: "client-left" })
    expect(heard).toContain("client-left ends")
  })

  test("ends a call that was forwarded only by what is durable: a settlement, or a withdrawal", () => {
    const last = drawn.filter(({ state, to }) => to === "done" && state !== "done" && state !== "waiting")
    expect(last.map(({ state, event }) => `${state} ${event}`).toSorted()).toEqual([
      "settling settled",
      "withdrawing crashed",
      "withdrawing withdrawn",
    ])
  })

  test("says either that it is charged or that nothing is, and never both", () => {
    expect(next("done", "not-opened")).toBe("done")
    for (const late of ["settled", "not-settled", "ended", "opened"] as const)
      expect(next("withdrawing", late)).toBe("withdrawing")
  })

  test("asks another backend only while the client has nothing and is there", () => {
    for (const { state, event, to } of drawn) {
      if (to === "trying") expect(state === "trying" || `${state} ${event}` === "waiting admitted").toBeTrue()
    }
  })
})

/** What a cause is to a call that is in a state, until its end; undefined where the call hears of nothing. */
const causes: Readonly<Record<Exclude<Cause, "crash">, (state: PlayedState) => readonly EventType[]>> = {
  "client leaves": (state) => (state === "waiting" ? ["client-left", "refused"] : ["client-left", ...rest(state)]),
  "client half-closes": (state) => causes["client leaves"](state),
  "client is slow": (state) => rest(state),
  "backend breaks": () => ["ended", "settled"],
  "backend hangs": () => ["timed-out", "ended", "settled"],
  "backend lies": (state) => (state === "settling" ? ["ended"] : rest(state)),
  "backend echoes": (state) => (state === "settling" ? ["ended"] : rest(state)),
  deadline: (state) => {
    if (state === "waiting") return ["refused"]
    return state === "settling" ? ["not-settled", "withdrawn"] : ["timed-out", "ended", "settled"]
  },
  drain: (state) => (state === "waiting" ? ["refused"] : rest(state)),
  "drain is over": (state) => (state === "waiting" ? ["refused"] : ["timed-out", ...rest(state)]),
  late: (state) => rest(state),
}

/** What is left of a call that goes on well. */
function rest(state: PlayedState): readonly EventType[] {
  if (state === "settling") return ["settled"]
  const relayed: readonly EventType[] = state === "draining" ? [] : ["content", "committed"]
  return [...(state === "waiting" ? (["admitted"] as const) : []), "opened", ...relayed, "ended", "settled"]
}

function path(from: State, played: readonly EventType[]): State[] {
  const passed = [from]
  for (const event of played) passed.push(next(passed.at(-1) ?? from, event))
  return passed
}

describe.each(Object.entries(causes))("a call's end, as documented: %s", (cause, eventsIn) => {
  const row = Object.entries(endings[cause as Cause]) as [PlayedState, Ending | string][]
  test.each(row)("%s", (state, ending) => {
    if (typeof ending === "string") {
      // No such case: the event cannot come, or is no news.
      const [first] = eventsIn(state)
      if (first === undefined) throw new Error("a cause without an event")
      const to = table[first][state]
      expect(to === "impossible" || to === state || ["opened", "admitted"].includes(first)).toBeTrue()
      return
    }
    const passed = path(state, eventsIn(state))
    expect(passed.at(-1)).toBe("done")
    const isForwarded = passed.some((at) => at !== "waiting" && at !== "done")
    expect(isForwarded).toBe(ending.record !== "none")
    expect(passed.includes("withdrawing")).toBe(ending.record === "billing_error")
    if (cause === "client leaves" && state !== "waiting" && state !== "settling") expect(passed).toContain("draining")
    if (ending.hears === "a refusal") expect(passed).toEqual(["waiting", "done"])
  })
})
