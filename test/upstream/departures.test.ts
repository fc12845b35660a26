import { expect, test } from "bun:test"
import { batchRequests } from "../../src/upstream/client.ts"

const init = { decompress: false }

/** A `fetch` that notes what it was asked, and turns of the event loop that end when they are told to. */
function grouped(answer: (url: string) => Promise<Response> = () => Promise.resolve(new Response())) {
  const asked: string[] = []
  const turns: (() => void)[] = []
  const fetch = batchRequests(
    (url) => {
      asked.push(url)
      return answer(url)
    },
    (run) => turns.push(run),
  )
  return { fetch, asked, endTurn: () => turns.shift()?.(), turns }
}

test("the requests of a turn leave together, in order, when it ends", async () => {
  const { fetch, asked, endTurn, turns } = grouped()
  const both = Promise.all([fetch("a", init), fetch("b", init)])
  await Promise.resolve()
  expect(asked).toEqual([])
  expect(turns).toHaveLength(1)
  endTurn()
  expect(asked).toEqual(["a", "b"])
  expect((await both).map(({ status }) => status)).toEqual([200, 200])
  void fetch("c", init)
  endTurn()
  expect(asked).toEqual(["a", "b", "c"])
})

test("the 32nd waits for nobody", () => {
  const { fetch, asked, endTurn } = grouped()
  for (let n = 1; n <= 31; n++) void fetch(String(n), init)
  expect(asked).toHaveLength(0)
  void fetch("32", init)
  expect(asked).toHaveLength(32)
  void fetch("33", init)
  expect(asked).toHaveLength(32)
  endTurn()
  expect(asked).toHaveLength(33)
})

test("a request that cannot be made is its own failure", async () => {
  const { fetch, asked, endTurn } = grouped((url) => {
    if (url === "throws") throw new TypeError("no such protocol")
    return url === "fails" ? Promise.reject(new Error("refused")) : Promise.resolve(new Response())
  })
  const all = Promise.allSettled(["throws", "fails", "works"].map((url) => fetch(url, init)))
  endTurn()
  expect((await all).map(({ status }) => status)).toEqual(["rejected", "rejected", "fulfilled"])
  expect(asked).toHaveLength(3)
})

test("with the event loop's own turns a request leaves by itself", async () => {
  const fetch = batchRequests(() => Promise.resolve(new Response("here")))
  expect(await (await fetch("a", init)).text()).toBe("here")
})
