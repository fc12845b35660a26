/** Large vectors of an account that has taken much of the thread wait for their turn, but not when the gateway ends (decisions §11). */
import { expect, spyOn, test } from "bun:test"
import { RecentUse } from "../../src/bodies/bodies.ts"
import { hasNoInside } from "../gateway/binary.ts"
import { startTestGateway } from "../gateway/harness.ts"
import { eventually, rowsOf, requestId } from "./calling.ts"

test.skipIf(hasNoInside)(
  "vectors that wait for the thread do not keep the gateway from ending, and arrive",
  async () => {
    await using gateway = await startTestGateway({ env: { DRAIN_MS: "1000" } })
    const { key } = await gateway.key(await gateway.person(100_000))
    const model = await gateway.model({ format: "embeddings", output_micro: 0, script: "ttft=500" })
    const input = Array.from({ length: 100 }, (_, index) => String(index))
    const body = { model, input, dimensions: 4_096, encoding_format: "float" }
    const answering = gateway.post("/v1/embeddings", key, body)
    await eventually(
      "it is not forwarded",
      () => gateway.simulator.calls.length,
      (calls) => calls === 1,
    )
    // From here on it has taken much, and stays so.
    using _ = spyOn(RecentUse.prototype, "by").mockReturnValue(10_000)
    const begunAt = performance.now()
    await gateway.stop()
    expect(performance.now() - begunAt).toBeLessThan(30_000)
    const answer = await answering
    expect(answer.status).toBe(200)
    expect(((await answer.json()) as { data: unknown[] }).data).toHaveLength(100)
    expect(await rowsOf(gateway, requestId(answer))).toMatchObject([{ status: "ok" }])
  },
)
