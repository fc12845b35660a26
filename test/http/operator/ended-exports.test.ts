/** A file that takes long, as whoever reads it stops being an operator, or signs out: on a connection that is read slowly. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { connect } from "node:net"
import { type Person, startTestGateway, type TestGateway } from "../../gateway/harness.ts"
import { makeOperator } from "./operator.ts"

let gateway: TestGateway
beforeAll(async () => {
  gateway = await startTestGateway()
  // More than sockets take on their way: some 60 MB.
  await gateway.sql`insert into audit_log (request_id, action, subject, reason)
    select 'req_long' || n, 'model.retired', 'm', repeat('x', 5000) from generate_series(1, 10000) n`
})
afterAll(() => gateway[Symbol.asyncDispose]())

/** What came of a file of which the first bytes were read before `meanwhile`, and the rest after it. */
async function readSlowly({ token }: Person, meanwhile: () => Promise<unknown>): Promise<string> {
  const { hostname, port } = new URL(gateway.url)
  const socket = connect(Number(port), hostname)
  const lines = [
    "GET /operator/audit/export.csv HTTP/1.1",
    `Host: ${hostname}:${port}`,
    `Authorization: Bearer ${token}`,
  ]
  socket.write(`${lines.join("\r\n")}\r\n\r\n`)
  const chunks: Buffer[] = []
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  socket.on("data", (bytes: Buffer) => {
    chunks.push(bytes)
    if (chunks.length === 1) {
      socket.pause()
      begin()
    }
    // The last chunk of a whole file is empty.
    if (bytes.subarray(-5).toString() === "0\r\n\r\n") end()
  })
  socket.on("close", () => end())
  socket.on("error", () => end())
  await begun
  await Bun.sleep(1_200)
  await meanwhile()
  socket.resume()
  await ended
  socket.destroy()
  return Buffer.concat(chunks).toString("latin1")
}

const isWhole = (text: string) => text.endsWith("0\r\n\r\n")

test("a file of the house's is read to its end by an operator, and breaks off for who is none any more or has signed out", async () => {
  const [stays, falls, leaves] = [await makeOperator(gateway), await makeOperator(gateway), await makeOperator(gateway)]
  const whole = await readSlowly(stays, async () => {})
  expect(whole).toStartWith("HTTP/1.1 200")
  expect(isWhole(whole)).toBe(true)
  const fallen = await readSlowly(falls, async () => {
    await gateway.sql`update accounts set role = 'customer', operator_role = null where id = ${falls.accountId}`
  })
  const left = await readSlowly(leaves, () => gateway.dashboard(leaves, "/auth/sign-out", { method: "POST" }))
  for (const file of [fallen, left]) {
    expect(file).toStartWith("HTTP/1.1 200")
    expect(isWhole(file)).toBe(false)
    expect(file.length).toBeLessThan(whole.length / 2)
  }
}, 60_000)
