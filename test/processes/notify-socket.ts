/** A socket as systemd's, on which services say how they are. */
import { dlopen, ptr } from "bun:ffi"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const { symbols: libc } = dlopen("libc.so.6", {
  socket: { args: ["i32", "i32", "i32"], returns: "i32" },
  bind: { args: ["i32", "ptr", "u32"], returns: "i32" },
  recv: { args: ["i32", "ptr", "u64", "i32"], returns: "i64" },
  close: { args: ["i32"], returns: "i32" },
})

export class NotifySocket implements Disposable {
  /** For `NOTIFY_SOCKET`. */
  readonly address: string
  readonly #socket: number
  readonly #directory: string

  /** In the abstract namespace, or a file. */
  constructor(abstract = false) {
    this.#directory = mkdtempSync(join(tmpdir(), "loket-notify-"))
    const path = join(this.#directory, "socket")
    this.address = abstract ? `@${path}` : path
    const AF_UNIX = 1
    this.#socket = libc.socket(AF_UNIX, 2 | 0o2000000, 0)
    const name = Buffer.concat([Buffer.from([AF_UNIX, 0]), Buffer.from(this.address.replace(/^@/, "\0"))])
    if (libc.bind(this.#socket, ptr(name), name.length) !== 0) throw new Error(`no socket can be bound to ${path}`)
  }

  /** What has come since the last time. */
  heard(): string[] {
    const all: string[] = []
    const buffer = Buffer.alloc(4096)
    for (;;) {
      const length = Number(libc.recv(this.#socket, ptr(buffer), buffer.length, 0x40))
      if (length < 0) return all
      all.push(buffer.toString("utf8", 0, length))
    }
  }

  [Symbol.dispose](): void {
    libc.close(this.#socket)
    rmSync(this.#directory, { recursive: true, force: true })
  }
}
