/**
 * A place at which a gateway runs, with the supervisor of production: whatever ends it, it is started again at once. What
 * it complains of is kept, so that a crash that nobody ordered is found.
 */
import type { ChildGateway, House } from "../child.ts"

const PAUSE_MS = 50

export class Slot {
  readonly complaints: string[] = []
  /** SIGKILLs, also of gateways that had only begun to start. */
  kills = 0
  readonly #house: House
  readonly #env: Readonly<Record<string, string>>
  readonly #inside: readonly string[]
  #gateway: ChildGateway | undefined
  #up: ChildGateway | undefined
  #wanted = false
  #held = false
  #running: Promise<void> = Promise.resolve()

  /** `inside` is a command that becomes the gateway, as one that puts it onto another machine. */
  constructor(house: House, env: Readonly<Record<string, string>> = {}, inside: readonly string[] = []) {
    this.#house = house
    this.#env = env
    this.#inside = inside
  }

  start(): void {
    this.#wanted = true
    this.#running = this.#run()
  }

  /** The gateway that listens here now. */
  get gateway(): ChildGateway | undefined {
    return this.#up
  }

  async listening(): Promise<ChildGateway> {
    while (this.#up === undefined) await Bun.sleep(10)
    return this.#up
  }

  async kill(): Promise<void> {
    while (this.#gateway === undefined) await Bun.sleep(5)
    this.kills++
    await this.#gateway.kill()
  }

  /** SIGKILL, and nobody is started until `release`: its operator has the database to himself. */
  async hold(): Promise<void> {
    this.#held = true
    await this.#gateway?.kill()
    while (this.#gateway !== undefined) await Bun.sleep(5)
  }

  release(): void {
    this.#held = false
  }

  /** SIGTERM, and nobody is started again. Its exit code. */
  async stop(): Promise<number> {
    const gateway = await this.listening()
    this.#wanted = false
    gateway.terminate()
    await this.#running
    return await gateway.exited
  }

  /** Ends whatever runs, when a run is given up. */
  async abandon(): Promise<void> {
    this.#wanted = false
    await this.#gateway?.kill()
    await this.#running
  }

  async #run(): Promise<void> {
    while (this.#wanted) {
      if (this.#held) {
        await Bun.sleep(10)
        continue
      }
      const gateway = this.#house.spawn(this.#env, this.#inside)
      this.#gateway = gateway
      gateway.listening.then(
        () => (this.#up = gateway),
        () => {},
      )
      await gateway.exited
      this.#gateway = undefined
      this.#up = undefined
      await gateway.silent
      this.complaints.push(...gateway.complaints)
      if (this.#wanted) await Bun.sleep(PAUSE_MS)
    }
  }
}
