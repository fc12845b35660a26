/** An event posted to an address that a customer named, who may mean ill. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test"
import { systemClock } from "../../actors/kernel/clock.ts"
import { addressesOf, isPublic, post, urlProblem } from "../../src/accounts/deliveries.ts"
import { HOST, PUBLIC, startReceiver } from "./receiver.ts"

let receiver: Awaited<ReturnType<typeof startReceiver>>
beforeAll(async () => void (receiver = await startReceiver()))
afterAll(() => receiver.stop())
beforeEach(() => receiver.reset())

const send = (url = `https://${HOST}/loket?of=us`) =>
  post({ url, headers: { "content-type": "application/json" }, body: '{"a":"é"}' }, receiver.network)

test("only addresses of the public Internet are public", () => {
  const closed = [
    ["0.0.0.0", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.1.2.3", "169.254.169.254"],
    [
      "172.16.0.1",
      "172.31.255.255",
      "192.0.0.8",
      "192.0.2.1",
      "192.168.1.1",
      "198.18.0.1",
      "198.51.100.7",
      "203.0.113.9",
    ],
    ["224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "::ffff:10.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1"],
    ["64:ff9b::a00:1", "64:ff9b:1::a00:1", "2002:a00:1::", "2001::1", "2001:db8::1", "3fff::1", "fc00::1", "fd12::1"],
    ["fe80::1", "fec0::1", "ff02::1", "100::1", "3fff:fff:ffff::1", "5f00::1", "fd00:ec2::254", "localhost", ""],
    // Given out to nobody.
    ["4000::1", "1fff::1", "e000::1", "a::1"],
  ].flat()
  expect(closed.filter(isPublic)).toEqual([])
  const open = ["8.8.8.8", PUBLIC, "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2404:6800:4003::200e"]
  expect(open.filter((address) => !isPublic(address))).toEqual([])
})

test("a webhook's address is https, with a name, at 443 or 8443, and names nobody", () => {
  const right = [
    "https://example.com",
    "https://example.com:8443/a?b=c",
    "https://EXAMPLE.com:443/",
    "https://xn--bcher-kva.example/",
  ]
  expect(right.filter((url) => urlProblem(url) !== undefined)).toEqual([])
  const wrong = [
    [
      "http://example.com/",
      "ftp://example.com/",
      "//example.com",
      "example.com",
      "",
      "https://",
      "https://example.com:22/",
    ],
    [
      "https://a:b@example.com/",
      "https://a@example.com/",
      "https://:b@example.com/",
      "https://example.com/#x",
      "https://example.com/ x",
    ],
    ["https://127.0.0.1/", "https://[::1]/", "https://2130706433/", "https://0x7f.1/", "https://localhost/"],
    ["https://example.com:8080/", `https://example.com/${"x".repeat(2_000)}`],
  ].flat()
  expect(wrong.filter((url) => urlProblem(url) === undefined)).toEqual([])
  expect(urlProblem(`https://example.com/${"x".repeat(2_000 - "https://example.com/".length)}`)).toBeUndefined()
})

test("what is sent arrives whole, and the connection goes to the address that was judged", async () => {
  expect(await send()).toEqual({ status: 204 })
  expect(receiver.received).toMatchObject([{ path: "/loket?of=us", body: '{"a":"é"}', headers: { host: HOST } }])
  expect([receiver.resolved, receiver.connected]).toEqual([[HOST], [PUBLIC]])
})

test("a name that turns to a private address is asked once, and a mixed answer is refused", async () => {
  receiver.answers.splice(0, 1, [PUBLIC], ["127.0.0.1"])
  expect(await send()).toEqual({ status: 204 })
  expect([receiver.resolved, receiver.connected]).toEqual([[HOST], [PUBLIC]])
  expect(await send()).toBe("address")
  receiver.answers.splice(0, 2, [PUBLIC, "10.0.0.7"])
  expect(await send()).toBe("address")
  receiver.answers.splice(0, 1, ["::ffff:169.254.169.254"])
  expect(await send()).toBe("address")
  receiver.answers.splice(0, 1, [])
  expect(await send()).toBe("dns")
  expect(receiver.received).toHaveLength(1)
})

test("an address that is none any more is not asked for, and a name server that fails names nobody", async () => {
  for (const url of [`http://${HOST}/`, `https://${HOST}:22/`, "https://127.0.0.1/"])
    expect(await send(url)).toBe("address")
  expect([receiver.resolved, receiver.connected]).toEqual([[], []])
  const failing = { ...receiver.network, resolve: () => Promise.reject(new Error("refused")) }
  expect(await post({ url: `https://${HOST}/`, headers: {}, body: "{}" }, failing)).toBe("dns")
})

test("a redirect is an answer like another, and is not followed", async () => {
  receiver.answer((_, response) => void response.writeHead(302, { location: "https://169.254.169.254/" }).end())
  expect(await send()).toEqual({ status: 302 })
  expect(receiver.received).toHaveLength(1)
})

test("a certificate of another name, or of nobody, is none", async () => {
  receiver.answers.splice(0, 1, [PUBLIC])
  expect(await send("https://other.example.com/")).toBe("tls")
  const { ca: _, ...untrusting } = receiver.network
  expect(await post({ url: `https://${HOST}/`, headers: {}, body: "{}" }, untrusting)).toBe("tls")
  expect(receiver.received).toEqual([])
})

test("who hangs, drips or never ends takes no longer than the others", async () => {
  const began = systemClock.running()
  const hungUp = Promise.withResolvers<void>()
  receiver.answer(({ socket }) => void socket.once("close", hungUp.resolve))
  expect(await send()).toBe("timeout")
  // Nothing of it is left open.
  await hungUp.promise
  receiver.answer(({ socket }) => {
    socket.write("HTTP/1.1 200 OK\r\n")
    const drip = setInterval(() => (socket.destroyed ? clearInterval(drip) : socket.write("x-a: b\r\n")), 50)
  })
  expect(await send()).toBe("timeout")
  expect(
    await post(
      { url: `https://${HOST}/`, headers: {}, body: "{}" },
      { ...receiver.network, resolve: () => new Promise(() => {}) },
    ),
  ).toBe("timeout")
  expect(systemClock.running() - began).toBeLessThan(6_000)
  // The head is enough: what follows is not read.
  const { promise: closed, resolve: close } = Promise.withResolvers<void>()
  receiver.answer((_, response) => {
    response.writeHead(200)
    const more = setInterval(() => response.write("x".repeat(65_536)), 1)
    response.on("close", () => {
      close()
      clearInterval(more)
    })
  })
  expect(await send()).toEqual({ status: 200 })
  await closed
})

test("a head without end is none", async () => {
  receiver.answer(({ socket }) => void socket.write(`HTTP/1.1 200 OK\r\nx-a: ${"b".repeat(200_000)}\r\n\r\n`))
  expect(typeof (await send())).toBe("string")
})

/** A name server with what it was asked, by kind of record (A is 1, AAAA is 28); it answers what `records` has of that kind. */
async function nameServer(records: Readonly<Record<number, readonly number[]>>) {
  const asked: number[] = []
  const socket = await Bun.udpSocket({
    hostname: "127.0.0.1",
    socket: {
      data(self, question, port, address) {
        const name = question.subarray(12, question.indexOf(0, 12) + 1)
        const kind = question.readUInt16BE(12 + name.length)
        asked.push(kind)
        const data = records[kind]
        if (data === undefined) return
        const head = [question[0] ?? 0, question[1] ?? 0, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]
        const record = [0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 5, 0, data.length, ...data]
        self.send(Buffer.from([...head, ...name, 0, kind, 0, 1, ...record]), port, address)
      },
    },
  })
  return { address: `127.0.0.1:${socket.port}`, asked, [Symbol.dispose]: () => socket.close() }
}

test("a name's addresses are those of both families", async () => {
  using server = await nameServer({
    1: [8, 8, 8, 8],
    28: [0x26, 6, 0x47, 0, ...Array.from({ length: 11 }, () => 0), 1],
  })
  const found = await addressesOf("hook.example.com", [server.address])
  expect(found.toSorted()).toEqual(["2606:4700::1", "8.8.8.8"])
  expect(new Set(server.asked)).toEqual(new Set([1, 28]))
})

test("names of which no server says anything hold nobody up who needs a thread", async () => {
  using server = await nameServer({})
  const names = Array.from({ length: 32 }, (_, at) => `hook${at}.example.com`)
  const looking = Promise.all(names.map((name) => addressesOf(name, [server.address])))
  while (server.asked.length < 2 * names.length) await Bun.sleep(5)
  const begun = performance.now()
  await Bun.password.hash("a password", { algorithm: "argon2id", memoryCost: 64, timeCost: 1 })
  await Bun.file(import.meta.path).text()
  expect(performance.now() - begun).toBeLessThan(1_000)
  expect((await looking).flat()).toEqual([])
})
