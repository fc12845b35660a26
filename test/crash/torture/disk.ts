/**
 * A small disk that can be filled to the last byte: a file system in memory, mounted in a directory of its own. Mounting
 * takes privileges; where there are none, what needs a full disk is left out, and the reason is told.
 */
import { chmodSync, closeSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

export interface Disk extends Disposable {
  readonly path: string
  fill(): void
  /** Makes room again. */
  free(): void
}

/** Undefined where mounting is not permitted. */
export function mountDisk(megabytes: number): Disk | undefined {
  const path = mkdtempSync(join(tmpdir(), "loket-disk-"))
  const mounted = Bun.spawnSync(["mount", "-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", path]).success
  if (!mounted) {
    rmSync(path, { recursive: true })
    return undefined
  }
  // Whoever runs the database writes below it.
  chmodSync(path, 0o777)
  const ballast = join(path, "ballast")
  return {
    path,
    fill() {
      const file = openSync(ballast, "a")
      // Whole pages first, then the rest of the last one.
      for (const size of [1_048_576, 4_096, 1]) fillBy(file, Buffer.alloc(size))
      closeSync(file)
    },
    free: () => rmSync(ballast, { force: true }),
    [Symbol.dispose]() {
      Bun.spawnSync(["umount", "-l", path])
      rmSync(path, { recursive: true, force: true })
    },
  }
}

function fillBy(file: number, bytes: Uint8Array): void {
  for (;;) {
    try {
      if (writeSync(file, bytes) < bytes.length) return
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOSPC") return
      throw error
    }
  }
}
