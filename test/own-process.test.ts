import { expect, test } from "bun:test"
import { serviceManager } from "../src/own-process.ts"
import { NotifySocket } from "./processes/notify-socket.ts"

const warnings: string[] = []
const log = { warn: (event: string) => void warnings.push(event) }

for (const [where, abstract] of [
  ["a file", false],
  ["the abstract namespace", true],
] as const)
  test(`a manager whose socket is in ${where} is told of the start and the stop`, () => {
    using socket = new NotifySocket(abstract)
    const manager = serviceManager({ NOTIFY_SOCKET: socket.address }, log)
    expect(socket.heard()).toEqual([])
    manager.ready()
    manager.stopping()
    expect(socket.heard()).toEqual(["READY=1", "STOPPING=1"])
    expect(warnings).toEqual([])
  })

test("a manager that nobody reaches is complained of once, and one that is not there not at all", () => {
  const manager = serviceManager({ NOTIFY_SOCKET: "/nowhere/at/all" }, log)
  manager.ready()
  manager.stopping()
  expect(warnings).toEqual(["systemd not told"])
  serviceManager({}, log).ready()
  expect(warnings).toHaveLength(1)
})
