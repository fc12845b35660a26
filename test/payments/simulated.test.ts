/** The simulated provider's notifications: whom it believes, and what they may say. */
import { describe, expect, test } from "bun:test"
import { Failure } from "../../src/failure/failure.ts"
import { signSimulated, simulatedProvider, type SimulatedNotification } from "../../src/payments/provider.ts"

const secret = "a secret"
const provider = simulatedProvider({ secret })
const paid: SimulatedNotification = { top_up_id: "top_1", status: "paid", amount_rp: 101_200 }
const back: SimulatedNotification = { ...paid, status: "refund", back_rp: 1_200, reversal_id: "r-1" }
/** What comes of a notification that is signed as it is; the code of a refusal. */
async function read(notice: object, { by = secret, to = provider } = {}): Promise<unknown> {
  const { body, headers } = signSimulated(by, notice as SimulatedNotification)
  const read = await to.readNotification(body, headers)
  return read instanceof Failure ? read.code : read
}

describe("a notification", () => {
  test("is believed under the secret alone, and where there is none nobody is", async () => {
    expect(await read(paid)).toEqual({ kind: "paid", topUpId: "top_1", reference: "top_1", amountRp: 101_200n })
    expect(await read(paid, { by: "another" })).toBe("auth.unauthorized")
    for (const none of ["", undefined]) {
      const to = simulatedProvider({ secret: none })
      expect(await read(paid, { by: "", to })).toBe("auth.unauthorized")
      expect(to.payPath).toBeUndefined()
    }
    expect(provider.payPath?.("top_1")).toBe("/simulated-pay/top_1")
    const { body, headers } = signSimulated(secret, paid)
    for (const given of [`${headers.get("X-Signature")}0`, headers.get("X-Signature")?.slice(1) ?? "", ""]) {
      const refused = await provider.readNotification(body, new Headers({ "X-Signature": given }))
      expect(refused instanceof Failure && refused.code).toBe("auth.unauthorized")
    }
  })

  test("of money that went back names each time, and is a bank's where it is a chargeback", async () => {
    const reversal = { reference: "r-1", refundId: undefined, kind: "provider_refund", amountRp: 1_200n, reason: "" }
    const reversed = { kind: "reversed", topUpId: "top_1", reference: "top_1", amountRp: 101_200n, backRp: undefined }
    expect(await read(back)).toEqual({ ...reversed, reversals: [reversal] })
    const taken = { ...reversed, reversals: [{ ...reversal, kind: "chargeback" }] }
    expect(await read({ ...back, status: "chargeback" })).toEqual(taken)
  })

  const largest = Number.MAX_SAFE_INTEGER
  test.each([
    [{ ...paid, amount_rp: largest }, undefined],
    [{ ...paid, amount_rp: largest + 1 }, "request.invalid"],
    [{ ...paid, amount_rp: -1 }, "request.invalid"],
    [{ ...paid, amount_rp: 0.5 }, "request.invalid"],
    [{ ...back, back_rp: -1 }, "request.invalid"],
    [{ ...back, back_rp: largest + 1 }, "request.invalid"],
    [{ ...back, reversal_id: "x".repeat(60) }, undefined],
    [{ ...back, reversal_id: "x".repeat(61) }, "request.invalid"],
    [{ ...back, reversal_id: "a:b" }, "request.invalid"],
    [{ ...back, reversal_id: "" }, "request.invalid"],
    [{ ...paid, status: "unpaid" }, "request.invalid"],
  ])("%j is taken or refused as it is", async (notice, code) => {
    const said = await read(notice)
    expect(typeof said === "string" ? said : undefined).toBe(code)
  })
})
