import { describe, expect, test } from "bun:test"
import { connect } from "node:net"
import { systemClock } from "../../actors/kernel/clock.ts"
import { NoAnswer, within } from "../../src/store/deadline.ts"

/** Somebody else's process, which answers each byte after so long; `ask` calls back in the turn in which the answer is read. */
async function answersAfter(ms: number) {
  const script = `const s = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: (k, d) => void setTimeout(() => k.write(d), ${ms}) } })
    console.log(s.port)`
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe" })
  const { value } = await child.stdout.getReader().read()
  const socket = connect(Number(new TextDecoder().decode(value)), "127.0.0.1")
  await new Promise<void>((resolve) => void socket.once("connect", resolve))
  return {
    ask: (heard = () => {}) =>
      new Promise<string>((resolve) => {
        socket.once("data", (data: Buffer) => {
          heard()
          resolve(data.toString())
        })
        socket.write("x")
      }),
    [Symbol.dispose]: () => {
      socket.destroy()
      child.kill()
    },
  }
}

/** The event loop stands still. */
function standStill(ms: number) {
  const until = performance.now() + ms
  while (performance.now() < until);
}

describe("a deadline", () => {
  test("is kept by an answer that came while this process stood still", async () => {
    using database = await answersAfter(30)
    using customer = await answersAfter(5)
    await Promise.all([database.ask(), customer.ask()])
    for (const deadlineMs of [45, 150, 400]) {
      const answer = within(deadlineMs, database.ask())
      // In the turn of one socket, while the other's answer arrives: the timers come next.
      const settled = answer.catch((error: unknown) => error)
      await customer.ask(() => standStill(700))
      expect(await settled).toBe("x")
    }
  })

  test("is over for an answer that does not come, though this process is late", async () => {
    using other = await answersAfter(60_000)
    const answer = within(150, other.ask())
    await Bun.sleep(1)
    standStill(300)
    const before = performance.now()
    expect(await answer.catch((error: unknown) => error)).toBeInstanceOf(NoAnswer)
    // Nearly all of its time was still to be run.
    expect(performance.now() - before).toBeGreaterThan(40)
  })

  test("counts the time in which this process ran, to within two ticks a standstill", async () => {
    const [ran, passed, lost] = [systemClock.running(), performance.now(), systemClock.lost()]
    standStill(500)
    await Bun.sleep(120)
    const standing = performance.now() - passed - (systemClock.running() - ran)
    expect(standing).toBeGreaterThan(350)
    expect(standing).toBeLessThan(520)
    expect(systemClock.lost() - lost).toBeGreaterThan(350)
  })
})
