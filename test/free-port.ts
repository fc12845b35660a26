/**
 * A port for what cannot choose one itself, or has to come back at the same one. It lies below those that the kernel gives to
 * connections (ip_local_port_range), and no other test process is given it while this one lives: nobody takes it before it is
 * listened on.
 */
import { randomInt } from "node:crypto"

const FIRST = 12_000
const END = 32_000

export function freePort(): number {
  for (;;) {
    const port = randomInt(FIRST, END)
    if (isReserved(port) && isFree(port)) return port
  }
}

const socket = { data() {} }

/** By a name that one process has and the kernel takes back with its end (unix(7), "abstract"). */
function isReserved(port: number): boolean {
  if (process.platform !== "linux") return true
  try {
    Bun.listen({ unix: `\0loket-test-port-${port}`, socket }).unref()
    return true
  } catch {
    return false
  }
}

function isFree(port: number): boolean {
  try {
    Bun.listen({ hostname: "127.0.0.1", port, socket }).stop(true)
    return true
  } catch {
    return false
  }
}
