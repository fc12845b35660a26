/** What Prometheus is told of the members of pools, as this process has found them. As many series as the catalogue has members. */
import type { Registry } from "prom-client"
import type { RetryBudget } from "../../actors/circuit.ts"
import type { BackendHealth } from "../gateway/backend-health.ts"
import type { PoolMember } from "../gateway/pools.ts"
import { counter, gauge } from "./process-metrics.ts"

export interface WatchedPools {
  /** Of the models on sale, by their ids. */
  readonly members: () => readonly { readonly model: string; readonly isAlone: boolean; readonly place: PoolMember }[]
  readonly health: BackendHealth
  readonly budget: RetryBudget
  /** Monotonic milliseconds. */
  readonly now: () => number
}

export function watchPools(registry: Registry, { members, health, budget, now }: WatchedPools): void {
  gauge(registry, "member_under_way", "Calls at a member of a pool.", ["model", "member"], (set) => {
    for (const { model, place } of members()) set({ model, member: place.member.id }, place.own.room.underWay)
  })
  const well = "1 for a member that is asked, 0 for one that is held back, or whose credential is."
  gauge(
    registry,
    "member_well",
    well,
    ["model", "member"],
    (set) => {
      for (const { model, isAlone, place } of members()) {
        if (place.state === "disabled") continue
        // Where there is nobody else, it is asked whatever came of it.
        const isWell =
          isAlone || [place.own, place.credential].every(({ circuit }) => circuit.state(now()) === "closed")
        set({ model, member: place.member.id }, isWell ? 1 : 0)
      }
    },
    "min",
  )
  const spent = "Failed calls that were not sent again, because too many others were."
  counter(registry, "retries_refused", spent, [], (add) => add({}, budget.refused))
  counter(registry, "member_tries", "Tries at members of pools.", ["model", "member", "outcome"], (add) => {
    for (const { model, member, everAnswered, everFailed } of health.views()) {
      add({ model, member, outcome: "answered" }, everAnswered)
      add({ model, member, outcome: "failed" }, everFailed)
    }
  })
}
