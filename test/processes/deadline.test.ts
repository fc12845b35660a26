import { describe, expect, test } from "bun:test"
import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { systemClock } from "../../actors/kernel/clock.ts"
import { NoAnswer, within } from "../../src/store/connection.ts"

/**
 * Somebody else's process, which answers each byte at once, or never; what it has answered it notes in a file, which is seen
 * without a turn of the event loop. `ask` calls back in the turn in which the answer is read.
 */
async function otherProcess(answers = true) {
  const directory = mkdtempSync(join(tmpdir(), "loket-deadline-"))
  const noted = join(directory, "answers")
  const script = `const { appendFileSync } = require("node:fs")
    const data = (k, d) => { if (${answers}) { k.write(d); appendFileSync(${JSON.stringify(noted)}, "x") } }
    const s = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data } })
    console.log(s.port)`
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe" })
  const { value } = await child.stdout.getReader().read()
  const socket = connect(Number(new TextDecoder().decode(value)), "127.0.0.1")
  await new Promise<void>((resolve) => void socket.once("connect", resolve))
  return {
    answered: () => (existsSync(noted) ? statSync(noted).size : 0),
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
      rmSync(directory, { recursive: true })
    },
  }
}

describe("a deadline", () => {
  test("is kept by an answer that came while this process stood still", async () => {
    using database = await otherProcess()
    using customer = await otherProcess()
    for (const deadlineMs of [45, 150, 400]) {
      const before = database.answered()
      let settled: Promise<unknown> | undefined
      // In the turn of one socket, while the other's answer arrives: the timers come next, and the deadline's is over.
      await customer.ask(() => {
        settled = within(deadlineMs, database.ask()).catch((error: unknown) => error)
        const until = performance.now() + deadlineMs + 300
        while (database.answered() === before || performance.now() < until) Bun.sleepSync(1)
      })
      expect(await settled).toBe("x")
    }
  })

  test("is over for an answer that does not come, though this process is late", async () => {
    using other = await otherProcess(false)
    const answer = within(1_500, other.ask())
    await Bun.sleep(1)
    Bun.sleepSync(3_000)
    const before = performance.now()
    expect(await answer.catch((error: unknown) => error)).toBeInstanceOf(NoAnswer)
    // Nearly all of its time was still to be run.
    expect(performance.now() - before).toBeGreaterThan(40)
  })

  test("counts the time in which this process ran, to within two ticks a standstill", async () => {
    const [ran, passed, lost] = [systemClock.running(), performance.now(), systemClock.lost()]
    Bun.sleepSync(500)
    const stood = performance.now() - passed
    await Bun.sleep(120)
    const late = performance.now() - passed - stood - 120
    const standing = performance.now() - passed - (systemClock.running() - ran)
    expect(standing).toBeGreaterThan(350)
    expect(standing).toBeLessThan(stood + late + 20)
    expect(systemClock.lost() - lost).toBeGreaterThan(350)
  })
})
