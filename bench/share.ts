/** What a process may use at most of a core, by the kernel's control groups, so that several can be compared on few cores. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const PERIOD_US = 50_000
/** Where the first version mounts the controller, and the second all of them. */
const FIRST = "/sys/fs/cgroup/cpu"
const SECOND = "/sys/fs/cgroup"

/**
 * Holds a process with all its threads to this part of a core, in periods of 50 ms; what it starts later too. Undefined where
 * this system, or who runs this, may make no groups.
 */
export function holdToShare(pid: number, share: number): Disposable | undefined {
  const isFirst = existsSync(join(FIRST, "cpu.cfs_quota_us"))
  const group = join(isFirst ? FIRST : SECOND, `loket-bench-${pid}`)
  const quota = Math.round(PERIOD_US * share)
  try {
    if (!isFirst && !readFileSync(join(SECOND, "cgroup.subtree_control"), "utf8").split(/\s/).includes("cpu"))
      writeFileSync(join(SECOND, "cgroup.subtree_control"), "+cpu")
    mkdirSync(group)
    if (isFirst) {
      writeFileSync(join(group, "cpu.cfs_period_us"), String(PERIOD_US))
      writeFileSync(join(group, "cpu.cfs_quota_us"), String(quota))
    } else writeFileSync(join(group, "cpu.max"), `${quota} ${PERIOD_US}`)
    writeFileSync(join(group, "cgroup.procs"), String(pid))
  } catch {
    if (existsSync(group)) rmdirSync(group)
    return undefined
  }
  return {
    [Symbol.dispose]() {
      const parent = join(isFirst ? FIRST : SECOND, "cgroup.procs")
      for (const left of readFileSync(join(group, "cgroup.procs"), "utf8").split("\n").filter(Boolean))
        writeFileSync(parent, left)
      rmdirSync(group)
    },
  }
}
