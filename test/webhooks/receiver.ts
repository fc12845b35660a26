/** A receiver of webhooks on this machine, behind a name and an address that are not its own. */
import { mkdtempSync, readFileSync } from "node:fs"
import type { IncomingMessage, ServerResponse } from "node:http"
import { createServer } from "node:https"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { isPublic, type WebhookNetwork } from "../../src/accounts/deliveries.ts"

export const HOST = "hooks.example.com"
/** Of no host of ours, and public. */
export const PUBLIC = "93.184.215.14"

export interface Received {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

type Handler = (request: IncomingMessage, response: ServerResponse) => void

export async function startReceiver() {
  const directory = mkdtempSync(join(tmpdir(), "loket-tls-"))
  const [key, cert] = [join(directory, "key.pem"), join(directory, "cert.pem")]
  const made = Bun.spawnSync(
    `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test -addext subjectAltName=DNS:${HOST} -keyout ${key} -out ${cert}`.split(
      " ",
    ),
  )
  if (made.exitCode !== 0) throw new Error(made.stderr.toString())
  const received: Received[] = []
  const state: { handler: Handler } = { handler: (_, response) => void response.writeHead(204).end() }
  const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (request, response) => {
    const chunks: Buffer[] = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]))
      received.push({ path: request.url ?? "", headers, body: Buffer.concat(chunks).toString() })
      state.handler(request, response)
    })
  })
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve())
  })
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  const resolved: string[] = []
  const connected: string[] = []
  /** What each look at the name finds; the last one stays. */
  const answers: string[][] = [[PUBLIC]]
  const network: WebhookNetwork = {
    resolve: async (host) => {
      resolved.push(host)
      return (answers.length > 1 ? answers.shift() : answers[0]) ?? []
    },
    isAllowed: isPublic,
    timeoutMs: 1_000,
    connectTo: (judged) => {
      connected.push(judged)
      return { address: "127.0.0.1", port }
    },
    ca: readFileSync(cert, "utf8"),
  }
  return {
    received,
    resolved,
    connected,
    answers,
    network,
    answer: (handler: Handler) => void (state.handler = handler),
    reset() {
      received.length = resolved.length = connected.length = 0
      answers.splice(0, answers.length, [PUBLIC])
      state.handler = (_, response) => void response.writeHead(204).end()
    },
    stop() {
      server.close().closeAllConnections()
    },
  }
}
