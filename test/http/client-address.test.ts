import { expect, test } from "bun:test"
import { clientAddress } from "../../src/http/connection.ts"
import { startTestGateway } from "../gateway/harness.ts"

const cases: [name: string, header: string | undefined, sent: string | undefined, address: string][] = [
  ["the peer's, where no header is trusted", undefined, "203.0.113.7", "10.0.0.1"],
  ["the peer's, where the proxy said nothing", "X-Forwarded-For", undefined, "10.0.0.1"],
  ["what the proxy says", "X-Forwarded-For", "203.0.113.7", "203.0.113.7"],
  ["what the proxy says, and not what its client made up", "X-Forwarded-For", "1.1.1.1, 203.0.113.7", "203.0.113.7"],
  ["of the sixth version too", "X-Forwarded-For", "1.1.1.1,2001:db8::7", "2001:db8::7"],
  ["what the proxy says, without a port beside it", "X-Forwarded-For", "1.1.1.1:7, 203.0.113.7:51432", "203.0.113.7"],
  ["of the sixth version in brackets, with a port", "X-Forwarded-For", "[2001:db8::7]:51432", "2001:db8::7"],
  ["of the sixth version in brackets", "X-Forwarded-For", "[2001:db8::7]", "2001:db8::7"],
  ["the peer's, where a port is none", "X-Forwarded-For", "203.0.113.7:https", "10.0.0.1"],
  ["the peer's, where brackets are around no address", "X-Forwarded-For", "[203.0.113.7x]:443", "10.0.0.1"],
  ["the peer's, where it is no address", "X-Forwarded-For", "203.0.113.7, unknown", "10.0.0.1"],
  ["the peer's, where it is empty", "X-Forwarded-For", "", "10.0.0.1"],
]
test.each(cases)("a client's address is %s", (_, header, sent, address) => {
  const headers = new Headers(sent === undefined ? {} : { "x-forwarded-for": sent })
  expect(clientAddress(headers, "10.0.0.1", header)).toBe(address)
})

test.each([
  [{}, "127.0.0.1"],
  [{ CLIENT_ADDRESS_HEADER: "X-Forwarded-For" }, "203.0.113.7"],
])("a session is shown from where it is used, with %j", async (env, address) => {
  await using gateway = await startTestGateway({ env })
  const response = await fetch(`${gateway.url}/auth/sign-up`, {
    method: "POST",
    headers: { "X-Forwarded-For": "198.51.100.1, 203.0.113.7" },
    body: JSON.stringify({ email: `${crypto.randomUUID()}@example.com`, password: "correct horse battery" }),
  })
  const { account, session_token: token } = (await response.json()) as {
    account: { id: string }
    session_token: string
  }
  const person = { accountId: account.id, token }
  const sessions = await gateway.dashboard(person, "/account/sessions", {
    headers: { "X-Forwarded-For": "203.0.113.7" },
  })
  expect(await sessions.json()).toMatchObject({ data: [{ address, current: true }] })
})
