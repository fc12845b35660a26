import { microToJson } from "../../actors/money/micro.ts"
import type { FinishedCall } from "./ports.ts"

/** One line for each call; never a prompt, an answer or a key (decisions §11). */
export const callFields = ({ ending, booked, ...call }: FinishedCall) => ({
  request_id: call.requestId,
  account_id: call.accountId,
  key_id: call.keyId,
  model: call.model,
  endpoint: call.endpoint,
  status: booked.status,
  error_code: ending.errorCode,
  input_tokens: ending.tokens?.input,
  output_tokens: ending.tokens?.output,
  cache_read_tokens: ending.tokens?.cacheRead,
  cache_write_tokens: ending.tokens?.cacheWrite,
  charge_micro: microToJson(booked.charge),
  turns: ending.turns,
  attempts: ending.attempts,
  first_token_ms: ending.firstTokenMs,
  duration_ms: ending.durationMs,
  alert: call.alert || undefined,
})
