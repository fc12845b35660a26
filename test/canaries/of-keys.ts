/** Faults in what a key may be used for, from where, and until when. */
import type { Canary } from "./canary.ts"

export const keyCanaries: readonly Canary[] = [
  {
    name: "a chain leads out of what a key is bound to",
    means: "A key for a cheap model is answered, and charged, by the dearest one of its chain.",
    file: "src/gateway/candidates.ts",
    find: "      if (binding !== undefined && !mayUse(binding, id, offer)) continue\n",
    replace: "",
    detector: "chains",
    reason: /\(fail\) a chain never leads out of what the key is bound to/,
  },
  {
    name: "a key that is bound to networks is taken from everywhere",
    means: "A key that leaked is of use to whoever found it.",
    file: "actors/key.ts",
    find: "networks !== undefined && !isWithin(networks, origin.address)",
    replace: "networks !== undefined && origin.address === undefined",
    detector: "keys",
    reason: /\(fail\) a key that is bound to networks takes nothing of its window/,
  },
  {
    name: "a key does not expire while it is known",
    means: "A key of last month's contest goes on spending for as long as it is used.",
    file: "actors/key-count.ts",
    find: "nowMs >= record.expiresAt",
    replace: "record.expiresAt === 0",
    detector: "keys",
    reason: /\(fail\) .*is refused from its millisecond on/,
  },
  {
    name: "tokens are counted for a model that a key is not for",
    means: "A key tells of models that its owner has closed to it.",
    file: "src/http/calls.ts",
    find: "      if (notFor !== undefined) return notFor\n",
    replace: "",
    detector: "bound keys",
    reason: /\(fail\) .*reaches no other, by any endpoint/,
  },
  {
    name: "a key's largest rate is compared with one of four",
    means: "A key for cheap models is charged for dear input.",
    file: "src/gateway/binding.ts",
    find: "[output, cacheRead, cacheWrite].reduce(",
    replace: "[output].reduce(",
    detector: "bound keys",
    reason: /\(fail\) .*is for models whose cache_write_micro is not above it/,
  },
]
