/** The rate headers of a key, for the limits that it has (gateway-api.md, "Limits"). */
import type { KeyView } from "../../actors/key.ts"
import { microToJson } from "../../actors/money/micro.ts"

export function rateHeaders(view: KeyView): Record<string, string> {
  const { requests, tokens, budget } = view
  return {
    ...(requests && {
      "X-RateLimit-Limit": String(requests.limit),
      "X-RateLimit-Remaining": String(requests.remaining),
      "X-RateLimit-Reset": String(requests.resetS),
    }),
    ...(tokens && {
      "X-RateLimit-Limit-Tokens": String(tokens.limit),
      "X-RateLimit-Remaining-Tokens": String(tokens.remaining),
      "X-RateLimit-Reset-Tokens": String(tokens.resetS),
    }),
    ...(budget && {
      "X-Key-Limit-Micro": String(microToJson(budget.limit)),
      "X-Key-Usage-Micro": String(microToJson(budget.usage)),
      "X-Key-Remaining-Micro": String(microToJson(budget.remaining)),
      "X-Key-Limit-Period": budget.period,
    }),
  }
}
