/** What the profit page divides by, and the arithmetic of margins: in bigint, because sums of money are. */

export const profitGroups = ["day", "model", "member", "account"] as const
export type ProfitGroup = (typeof profitGroups)[number]

export const leaks = ["usage_missing", "failed", "retries", "rerouted", "searches", "voided"] as const

/** The margin as a share of the revenue; undefined without a revenue. */
export const shareOf = (sum: { readonly revenue_micro: number; readonly margin_micro: number }): number | undefined =>
  sum.revenue_micro === 0 ? undefined : sum.margin_micro / sum.revenue_micro

export const rateNames = ["input_micro", "output_micro", "cache_read_micro", "cache_write_micro"] as const

/** What calls were made of, in tokens. */
export interface Mix {
  readonly input_tokens: number
  readonly output_tokens: number
  readonly cache_read_tokens: number
  readonly cache_write_tokens: number
}

/** What a mix brings at rates of micro-rupiah for one token. */
export const revenueAt = (mix: Mix, rates: Readonly<Record<(typeof rateNames)[number], number>>): bigint =>
  BigInt(mix.input_tokens) * BigInt(rates.input_micro) +
  BigInt(mix.output_tokens) * BigInt(rates.output_micro) +
  BigInt(mix.cache_read_tokens) * BigInt(rates.cache_read_micro) +
  BigInt(mix.cache_write_tokens) * BigInt(rates.cache_write_micro)
