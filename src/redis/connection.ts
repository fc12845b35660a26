/**
 * One connection to Redis or Valkey, on which everything is pipelined. Once it has failed it stays so, and all that waits on it
 * rejects: nothing is queued for another one. It has no deadlines of its own; whoever closes it rejects what waits.
 */
import { RedisClient } from "bun"
import { SCRIPT, SCRIPT_SHA } from "./script.ts"

export class RedisConnection {
  readonly #client: RedisClient

  private constructor(client: RedisClient) {
    this.#client = client
  }

  /** Rejects where nobody answers in time, or refuses the password: the client does not tell these apart. */
  static async open(url: string, connectMs: number): Promise<RedisConnection> {
    const client = new RedisClient(url, {
      connectionTimeout: connectMs,
      autoReconnect: false,
      enableOfflineQueue: false,
    })
    try {
      await client.connect()
    } catch (error) {
      client.close()
      throw error
    }
    return new RedisConnection(client)
  }

  /** Runs the script (script.ts), which a server that does not have it is sent. */
  async script(keys: readonly string[], args: readonly string[]): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...args]
    try {
      return await this.#client.send("EVALSHA", [SCRIPT_SHA, ...rest])
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw error
      return await this.#client.send("EVAL", [SCRIPT, ...rest])
    }
  }

  /** Any other command. */
  send(command: string, args: readonly string[]): Promise<unknown> {
    return this.#client.send(command, [...args])
  }

  close(): void {
    this.#client.close()
  }
}
