/** `loket simulator`: the simulated backend alone, until it is told to stop. */
import { InvalidArgumentError } from "@commander-js/extra-typings"
import { startSimulator } from "../simulator/simulator.ts"
import { command, CommandFailure } from "./command.ts"

const LARGEST_PORT = 65_535

const isPort = (text: string): boolean => /^\d{1,5}$/.test(text) && Number(text) <= LARGEST_PORT

function port(text: string): number {
  if (!isPort(text)) throw new InvalidArgumentError(`It must be a number from 0 to ${LARGEST_PORT}.`)
  return Number(text)
}

function configuredPort(): number {
  const text = process.env["PORT"] || "8788"
  if (!isPort(text)) throw new CommandFailure(`PORT is "${text}"; it must be a number from 0 to ${LARGEST_PORT}`, 2)
  return Number(text)
}

export const simulatorCommand = () =>
  command("simulator", {
    summary: "Serve a simulated backend, which speaks all formats and fails on request",
    details:
      'Script a call in its model\'s name: "any-name?ttft=200&pace=20&output=50&fault=status&status=503&times=2"',
    examples: [["simulator --port 8788", "as a provider's base_url: http://127.0.0.1:8788"]],
  })
    .option("--port <number>", "where to listen; 0 takes any free port; PORT says it too", port)
    .option("--host <address>", "the address to listen on; HOST says it too")
    .action(async (options) => {
      const simulator = startSimulator({
        port: options.port ?? configuredPort(),
        hostname: options.host ?? (process.env["HOST"] || "127.0.0.1"),
      })
      console.log(`simulator: ${simulator.url} (chat completions, messages, responses)
script a call in its model's name: "any-name?ttft=200&pace=20&output=50&fault=status&status=503&times=2"`)
      await new Promise<void>((resolve) => {
        for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => resolve())
      })
      await simulator.stop()
    })
