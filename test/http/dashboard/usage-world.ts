/** The dashboard's API with calls to ask about, written as the ledger writes them. */
import { newRequestId } from "../../../src/http/edge.ts"
import { openWorld, type WorldOptions } from "./world.ts"

/** As they were counted and charged, at the rates of `model-a`. */
export interface Call {
  readonly endpoint?: string
  readonly firstTokenMs?: number
  readonly at?: string
  readonly part?: number
  readonly requestId?: string
  readonly keyId?: string
  readonly model?: string
  readonly status?: string
  readonly charge?: number
  readonly absorbed?: number
}

export async function openUsageWorld(options: WorldOptions = {}) {
  const world = await openWorld(options)
  await world.sql`
    insert into models values ('model-a', 1, 'A', 't', 'first', 'text', true, true, 1000, 100, '{chat}', 'first', 'chat', 'a',
      1, '{}', '{}', '{}', '{}')`
  await world.sql`
    insert into prices (model, input_micro, output_micro, cache_read_micro, cache_write_micro, effective_at)
    values ('model-a', 3, 5, 7, 11, now())`

  async function called(accountId: string, call: Call = {}): Promise<string> {
    const at = new Date(call.at ?? "2026-11-20T05:00:00Z")
    const status = call.status ?? "ok"
    const requestId = call.requestId ?? newRequestId(at.getTime())
    await world.sql`
    insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
      output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts,
      error_code, flagged, opened_at, first_token_ms, duration_ms)
    values (${requestId}, ${call.part ?? 0}, ${accountId}, ${call.keyId ?? "key_x"}, 1, ${call.model ?? "model-a"}, ${call.endpoint ?? "chat"},
      true, ${status}, 10, 20, 30, 40, ${call.charge ?? (status === "ok" ? 780 : 0)}, ${call.absorbed ?? 0}, 1, 1, 1,
      ${status === "ok" ? null : "dependency.upstream_unavailable"}, false, ${at}, ${call.firstTokenMs ?? 5}, 900)`
    return requestId
  }

  /** With two keys. */
  const owner = async () => {
    const { id, token } = await world.signUp()
    const keys = []
    for (const name of ["one", "two"]) keys.push((await world.call("POST", "/keys", { token, body: { name } })).json.id)
    return { id, token, keys }
  }

  return Object.assign(world, { called, owner })
}

export type UsageWorld = Awaited<ReturnType<typeof openUsageWorld>>
