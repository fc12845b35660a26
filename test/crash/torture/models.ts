/** What is called while processes die: for each endpoint a few backends that behave differently, cheap and dear. */
import type { ModelSeed } from "../../../src/catalogue/schema.ts"
import { COUNTS, type Endpoint, endpoints } from "../asking.ts"
import { modelSeed } from "../child.ts"

/** Of every answer: 30 input tokens at 1,000 micro, and 20 output tokens, which vectors have none of. */
const INPUT_MICRO = 30_000
const OUTPUT_TOKENS = 20

/** By kind: how the backend behaves, and whether it answers. */
const kinds = {
  quick: { script: "pace=4&head=3", answers: true },
  slow: { script: "pace=40", answers: true },
  // Longer than a heartbeat: the head is sent before the backend has said a word.
  late: { script: "ttft=900", answers: true },
  broken: { script: "pace=4&fault=reset&after=5", answers: false },
  refused: { script: "fault=status&status=500", answers: false },
} as const
type Kind = keyof typeof kinds
/** How often each is called. */
const weights: Readonly<Record<Kind, number>> = { quick: 6, slow: 2, late: 1, broken: 1, refused: 1 }
export const lots = Object.entries(weights).flatMap(([kind, weight]) =>
  Array.from({ length: weight }, () => kind as Kind),
)

const outputMicro = { cheap: 5_000, dear: 5_000_000 } as const
export type Tariff = keyof typeof outputMicro

export const chargeMicro = (tariff: Tariff, endpoint: Endpoint): number =>
  INPUT_MICRO + (endpoint === "embeddings" ? 0 : OUTPUT_TOKENS * outputMicro[tariff])

export const modelName = (tariff: Tariff, kind: Kind, endpoint: Endpoint): string => `${tariff}-${kind}-${endpoint}`

/** Its answer limit shows what half of the spendable balance is, in steps of 1,000. */
export const PROBE = "probe"

export const models: readonly ModelSeed[] = [
  ...(Object.keys(outputMicro) as Tariff[]).flatMap((tariff) =>
    (Object.keys(kinds) as Kind[]).flatMap((kind) =>
      endpoints.map((endpoint) =>
        modelSeed(modelName(tariff, kind, endpoint), endpoint, `${COUNTS}&${kinds[kind].script}`, {
          output_micro: outputMicro[tariff],
          max_concurrency: 1_000,
        }),
      ),
    ),
  ),
  modelSeed(PROBE, "chat", "output=1", { input_micro: 0, output_micro: 1_000, max_output_tokens: 2 ** 31 - 1 }),
]
