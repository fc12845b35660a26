/** Top-ups that nobody pays: each is a charge at the provider, is asked about for a day, and again by each reconciliation of a week. */
import { expect, test } from "bun:test"
import { Failure } from "../../../src/failure/failure.ts"
import { simulatedProvider } from "../../../src/payments/provider.ts"
import { notification, openWorld, SECRET } from "./world.ts"

test("an account leaves three hundred top-ups unpaid in a day, also those that got no code, and is then refused", async () => {
  let charges = 0
  let isAway = false
  const provider = {
    ...simulatedProvider({ secret: SECRET }),
    createCharge: async () => {
      charges++
      return isAway ? new Failure("dependency.upstream_unavailable") : { qrPayload: `a code ${charges}` }
    },
  }
  await using world = await openWorld({ provider })
  const { id, token } = await world.signUp()
  const other = await world.signUp()
  const open = (of = token) => world.call("POST", "/top-ups", { token: of, body: { amount_rp: 10_000 } })
  const { json: first } = await open()
  await world.sql`
    insert into top_ups (id, account_id, provider, balance_purchased_micro, service_fee_micro, payment_fee_micro,
      network_fee_micro, qr_payload, created_at, expires_at)
    select 'top_' || ${id} || n, ${id}, 'simulated', 10000000000, 0, 0, 0, '', now() - interval '20 hours', now() - interval '19 hours'
    from generate_series(1, 298) n`
  isAway = true
  expect((await open()).status).toBe(502)
  isAway = false
  const refused = await open()
  expect([refused.status, refused.json.code]).toEqual([429, "gateway.capacity"])
  expect(charges).toBe(2)
  // One that is paid makes room, and so does the next day. Others are not kept waiting.
  expect((await open(other.token)).status).toBe(201)
  const { headers, body } = notification({ top_up_id: first.id, status: "paid", amount_rp: 10_000 })
  expect((await world.call("POST", "/webhooks/payments/simulated", { headers, body })).status).toBe(200)
  expect((await open()).status).toBe(201)
  expect((await open()).status).toBe(429)
  await world.sql`update top_ups set created_at = created_at - interval '5 hours' where account_id = ${id}`
  expect((await open()).status).toBe(201)
  // What a clock has written that was set back since keeps nobody waiting.
  await world.sql`update top_ups set created_at = now() + interval '7 hours' where account_id = ${id}`
  expect((await open()).status).toBe(201)
})
