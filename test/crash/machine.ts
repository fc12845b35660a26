/**
 * A machine of its own as far as the network goes: a network namespace with one cable to this one. Its addresses are of
 * 198.18.0.0/15, which is for tests and routed nowhere. It takes privileges; where there are none, there is no such machine.
 */
import { randomInt } from "node:crypto"

export class Machine implements Disposable {
  readonly address: string
  /** This machine's, at the other end of the cable. */
  readonly ourAddress: string
  readonly #name: string
  readonly #plug: string
  readonly #socket: string
  #reachesAll = false

  private constructor() {
    const number = randomInt(1, 0x7fff)
    this.#name = `loket-${number}`
    this.#plug = `lk${number}p`
    this.#socket = `lk${number}s`
    const network = `198.${18 + (number & 1)}.${(number >> 1) & 0xff}.${(number >> 9) << 2}`
    const [a, b, c, d] = network.split(".").map(Number)
    this.ourAddress = `${a}.${b}.${c}.${(d ?? 0) + 1}`
    this.address = `${a}.${b}.${c}.${(d ?? 0) + 2}`
  }

  /** Undefined, and loudly so, where none can be made. */
  static build(): Machine | undefined {
    const machine = new Machine()
    try {
      machine.#connect()
      return machine
    } catch (error) {
      machine[Symbol.dispose]()
      process.stderr.write(`left out: no machine of its own can be made here (${String(error)})\n`)
      return undefined
    }
  }

  /** Undefined where one can be made; else why a test is left out. */
  static whyNone(): string | undefined {
    using machine = Machine.build()
    return machine === undefined ? "no machine of its own" : undefined
  }

  /** Before a command that runs there. */
  get inside(): string[] {
    return ["ip", "netns", "exec", this.#name]
  }

  /** Nothing passes any more, and nobody is told. */
  unplug(): void {
    ip("-n", this.#name, "link", "set", this.#plug, "down")
  }

  plugIn(): void {
    ip("-n", this.#name, "link", "set", this.#plug, "up")
    // Without the cable the way was gone.
    if (this.#reachesAll) this.reachAll()
  }

  /** It finds this machine by all of its addresses from now on, and not only by its end of the cable. */
  reachAll(): void {
    this.#reachesAll = true
    ip("-n", this.#name, "route", "add", "default", "via", this.ourAddress)
  }

  /** Nothing that it sends to an address leaves it, and nobody is told; all else passes. */
  lose(address: string): void {
    ip("-n", this.#name, "route", "add", "blackhole", `${address}/32`)
  }

  find(address: string): void {
    ip("-n", this.#name, "route", "delete", "blackhole", `${address}/32`)
  }

  [Symbol.dispose](): void {
    for (const what of [
      ["link", "delete", this.#socket],
      ["netns", "delete", this.#name],
    ])
      Bun.spawnSync(["ip", ...what])
  }

  #connect(): void {
    ip("netns", "add", this.#name)
    ip("link", "add", this.#socket, "type", "veth", "peer", "name", this.#plug, "netns", this.#name)
    ip("address", "add", `${this.ourAddress}/30`, "dev", this.#socket)
    ip("link", "set", this.#socket, "up")
    ip("-n", this.#name, "address", "add", `${this.address}/30`, "dev", this.#plug)
    ip("-n", this.#name, "link", "set", "lo", "up")
    this.plugIn()
  }
}

function ip(...parameters: string[]): void {
  const { success, stderr } = Bun.spawnSync(["ip", ...parameters])
  if (!success) throw new Error(`ip ${parameters.join(" ")}: ${stderr.toString().trim()}`)
}
