import { expect, test } from "bun:test"
import { serveEvents } from "./serve-events.ts"

test("a balance is read once for all who listen, and what happens within a moment is written together", async () => {
  const { state, events, server } = serveEvents(60_000)
  const readers = await Promise.all(
    Array.from({ length: 20 }, async () => (await fetch(new URL("/events", server.url))).body?.getReader()),
  )
  for (const reader of readers) await reader?.read()
  expect(state.reads).toBe(20)
  for (let each = 0; each < 50; each++) {
    events.credited("acc_1", `top_${each}`)
    await new Promise(setImmediate)
  }
  for (const reader of readers) {
    let [text, chunks] = ["", 0]
    while (!text.includes("event: balance")) {
      text += new TextDecoder().decode((await reader?.read())?.value)
      chunks++
    }
    expect(text.match(/event: top-up/g)?.length).toBe(50)
    expect(chunks).toBeLessThan(10)
  }
  expect(state.reads).toBe(21)
  for (const reader of readers) await reader?.cancel()
  await server.stop(true)
})

test("members' streams are looked at once for many changes of the account, and end with the membership", async () => {
  const { state, events, server } = serveEvents(60_000, "acc_2")
  const readers = await Promise.all(
    Array.from({ length: 20 }, async () => (await fetch(new URL("/events", server.url))).body?.getReader()),
  )
  for (const reader of readers) await reader?.read()
  const before = state.looks
  for (let each = 0; each < 50; each++) events.accountChanged("acc_1")
  // At once after the first of them, and once more for all that came meanwhile.
  while (state.looks < before + 40) await Bun.sleep(5)
  await Bun.sleep(500)
  expect(state.looks).toBe(before + 40)
  state.signedIn = false
  events.accountChanged("acc_1")
  for (const reader of readers) while ((await reader?.read())?.done === false);
  await server.stop(true)
})
