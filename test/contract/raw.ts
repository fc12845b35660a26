/** Bytes to a port, and what comes back: for requests that no HTTP client would send. */
import { connect } from "node:net"

/**
 * Everything that came until the peer closed, or until a quiet time in milliseconds, which begins with the first byte: a busy machine may take
 * longer to answer at all. Where nothing may come, `firstMs` is how long it is waited for.
 */
export function raw(url: string, bytes: string | Uint8Array, quietMs = 150, firstMs = 10_000): Promise<string> {
  return new Promise((resolve) => {
    const { hostname, port } = new URL(url)
    let received = ""
    const socket = connect(Number(port), hostname, () => socket.write(bytes))
    const done = () => {
      socket.destroy()
      resolve(received)
    }
    socket.setTimeout(Math.max(quietMs, firstMs), done)
    socket.on("data", (data) => {
      received += data.toString("latin1")
      socket.setTimeout(quietMs)
    })
    socket.on("error", done)
    socket.on("close", done)
  })
}
