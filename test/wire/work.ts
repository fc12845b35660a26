/** Some systems count a thread's time in ticks of so many microseconds, and less than a few of them says nothing. */
const LEAST = 10_000

/** The median of several runs, in microseconds of this thread. To compare two sizes by: a busy machine makes all of them slower. */
export function medianWork(run: () => void): number {
  const runs = Array.from({ length: 3 }, () => {
    const before = process.threadCpuUsage()
    run()
    const { user, system } = process.threadCpuUsage(before)
    return user + system
  })
  return Math.max(LEAST, runs.toSorted((one, other) => one - other)[1] ?? 0)
}
