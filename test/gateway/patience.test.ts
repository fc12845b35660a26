import { describe, expect, test } from "bun:test"
import { systemClock } from "../../actors/kernel/clock.ts"
import { Patience } from "../../src/gateway/patience.ts"
import { connectionFault } from "../../src/upstream/client.ts"

const aborted = (patience: Patience) =>
  new Promise<void>((resolve) => patience.signal.addEventListener("abort", () => resolve()))
const never = new Promise<never>(() => {})

describe("patience", () => {
  test("that is shorter after the start than for it ends at its own time", async () => {
    using patience = new Patience({ clock: systemClock, startMs: 3_600_000, wholeMs: 7_200_000, idleMs: 20 })
    patience.started()
    void patience.during(never)
    await aborted(patience)
    expect(patience.blame(connectionFault(true)).failure.message).toContain("fell silent")
  })

  test("is not lost on the next backend while the last one's connection is read out", async () => {
    using patience = new Patience({ clock: systemClock, startMs: 3_600_000, wholeMs: 7_200_000, idleMs: 40 })
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
    const last = patience.source(readable)
    patience.started()
    void patience.during(never)
    last.close()
    await writable.close()
    await aborted(patience)
  })

  test("does not run while nobody waits for a backend", async () => {
    using patience = new Patience({ clock: systemClock, startMs: 3_600_000, wholeMs: 7_200_000, idleMs: 10 })
    patience.started()
    await Bun.sleep(40)
    expect(patience.signal.aborted).toBeFalse()
  })

  test("that is given up blames nobody's time", () => {
    using patience = new Patience({ clock: systemClock, startMs: 3_600_000, wholeMs: 7_200_000, idleMs: 3_600_000 })
    const fault = connectionFault(true)
    expect(patience.blame(fault)).toBe(fault)
    patience.giveUp()
    expect(patience.givenUp).toBeTrue()
    expect(patience.blame(fault)).toMatchObject({ retryAfterMs: undefined })
    expect(patience.blame(fault).failure.detail.stream).toBeUndefined()
  })
})
