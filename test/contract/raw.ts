/** Bytes to a port, and what comes back: for requests that no HTTP client would send. */
import { connect } from "node:net"

/** Everything that came until the peer closed, or until a quiet time in milliseconds. */
export function raw(url: string, bytes: string | Uint8Array, quietMs = 150): Promise<string> {
  return new Promise((resolve) => {
    const { hostname, port } = new URL(url)
    let received = ""
    const socket = connect(Number(port), hostname, () => socket.write(bytes))
    const done = () => {
      socket.destroy()
      resolve(received)
    }
    socket.setTimeout(quietMs, done)
    socket.on("data", (data) => (received += data.toString("latin1")))
    socket.on("error", done)
    socket.on("close", done)
  })
}
