/** What a check found: that something is in order, or what is wrong and what to do about it. */
export type Finding =
  | { readonly state: "ok"; readonly what: string }
  /** `wrong` must be put right; `look` may be meant so. */
  | { readonly state: "wrong" | "look"; readonly what: string; readonly remedy: string }

export const ok = (what: string): Finding => ({ state: "ok", what })
export const wrong = (what: string, remedy: string): Finding => ({ state: "wrong", what, remedy })
export const look = (what: string, remedy: string): Finding => ({ state: "look", what, remedy })

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
export const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined

/** Of the machine that is asked against this one, in seconds. */
const SKEW_LOOK_S = 5
const SKEW_WRONG_S = 60

/** `aheadS`: how far the other clock is ahead of this machine's. */
export function clockFinding(whose: string, aheadS: number): Finding {
  const skew = Math.abs(aheadS)
  if (skew < SKEW_LOOK_S) return ok(`the clock is that of ${whose}`)
  const what = `this machine's clock is ${Math.round(skew)} s ${aheadS > 0 ? "behind" : "ahead of"} that of ${whose}`
  const remedy =
    "run a time service (timedatectl set-ntp true) on both: prices, budgets and signed calls go by the clock"
  return skew < SKEW_WRONG_S ? look(what, remedy) : wrong(what, remedy)
}
