/**
 * `bun run simulator`: the simulator alone, at HOST (127.0.0.1) and PORT (8788).
 */
import { startSimulator } from "./simulator.ts"

const port = process.env["PORT"] ?? "8788"
if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) {
  process.stderr.write(`PORT is "${port}"; it must be a number from 0 to 65535\n`)
  process.exit(1)
}
const simulator = startSimulator({ port: Number(port), hostname: process.env["HOST"] ?? "127.0.0.1" })
process.stdout.write(`simulator: ${simulator.url} (chat completions, messages, responses)
script a call in its model's name: "any-name?ttft=200&pace=20&output=50&fault=status&status=503&times=2"
`)

const stop = (): void => void simulator.stop().then(() => process.exit(0))
process.once("SIGTERM", stop)
process.once("SIGINT", stop)
