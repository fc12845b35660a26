/** A closed loop: so many clients, each with one call at a time, for so long. Times in milliseconds. */
export interface Load {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly clients: number
  readonly durationMs: number
}

export interface Measured {
  readonly calls: number
  readonly seconds: number
  /** Sorted. */
  readonly firstByteMs: readonly number[]
  readonly totalMs: readonly number[]
}

export async function run(load: Load): Promise<Measured> {
  const firstByteMs: number[] = []
  const totalMs: number[] = []
  const startedAt = performance.now()
  const until = startedAt + load.durationMs
  const client = async () => {
    while (performance.now() < until) {
      const sentAt = performance.now()
      const response = await fetch(load.url, { method: "POST", headers: load.headers, body: load.body })
      if (!response.ok || response.body === null) throw new Error(`${response.status}: ${await response.text()}`)
      const reader = response.body.getReader()
      await reader.read()
      firstByteMs.push(performance.now() - sentAt)
      while (!(await reader.read()).done);
      totalMs.push(performance.now() - sentAt)
    }
  }
  await Promise.all(Array.from({ length: load.clients }, client))
  const seconds = (performance.now() - startedAt) / 1_000
  return { calls: totalMs.length, seconds, firstByteMs: sorted(firstByteMs), totalMs: sorted(totalMs) }
}

const sorted = (values: number[]): number[] => values.toSorted((a, b) => a - b)

export const percentile = (values: readonly number[], p: number): number =>
  values[Math.min(values.length - 1, Math.floor(values.length * p))] ?? Number.NaN
