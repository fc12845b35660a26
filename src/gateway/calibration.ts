/**
 * How far the estimator of input tokens is off for each model, learnt from what backends count. Model families cut text
 * differently (one vendor's newest counts up to half more than another's), and an estimate that is under costs the house:
 * the hold is too small. Factors only raise; each process learns its own.
 */
export class Calibration {
  readonly #means = new Map<string, number>()

  /** What an estimate for this model is to be multiplied by: 1 to 1.6. */
  factor(model: string): number {
    return Math.min(LARGEST, Math.max(1, this.#means.get(model) ?? 1))
  }

  /** The estimate, before any factor, and what the backend counted of the same prompt. */
  learn(model: string, estimated: number, counted: number): void {
    // Short prompts say more of a backend's fixed additions than of its tokenizer.
    if (estimated < SHORTEST || counted <= 0) return
    const ratio = Math.min(LARGEST, counted / estimated)
    const mean = this.#means.get(model)
    this.#means.set(model, mean === undefined ? ratio : mean + (ratio - mean) * WEIGHT)
  }
}

const LARGEST = 1.6
const SHORTEST = 500
/** Of the newest prompt in the running mean. */
const WEIGHT = 0.05
