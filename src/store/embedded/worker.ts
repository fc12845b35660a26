/**
 * The embedded Postgres, in a worker of its own, because it runs each statement to its end without letting go of its
 * thread. Told where its files and its socket are, it answers "ready" once; told to stop, it closes the database.
 * Whatever goes wrong here ends the worker.
 */
import { existsSync, renameSync, rmSync } from "node:fs"
import { PGlite, type PGliteOptions } from "@electric-sql/pglite"
// By path, not by name: the package does not export its assets, and only a file import is carried into a compiled binary.
import postgresData from "../../../node_modules/@electric-sql/pglite/dist/pglite.data" with { type: "file" }
import postgresWasm from "../../../node_modules/@electric-sql/pglite/dist/pglite.wasm" with { type: "file" }
import initdbWasm from "../../../node_modules/@electric-sql/pglite/dist/initdb.wasm" with { type: "file" }
import { listen } from "./multiplexer.ts"
import { panicIn } from "./panic.ts"

export type ToWorker =
  | { readonly start: { readonly dataDir: string; readonly socketPath: string } }
  | { readonly stop: true }
export type FromWorker = "ready" | "stopped"

/** Instead of a directory: kept nowhere. */
const MEMORY = "memory"

declare const self: Worker

async function start(dataDir: string, socketPath: string): Promise<() => Promise<void>> {
  const assets = {
    pgliteWasmModule: await compile(postgresWasm),
    initdbWasmModule: await compile(initdbWasm),
    fsBundle: new Blob([await Bun.file(postgresData).arrayBuffer()]),
  }
  if (dataDir !== MEMORY && !existsSync(dataDir)) await create(dataDir, assets)
  const database = await PGlite.create(dataDir === MEMORY ? "memory://" : dataDir, assets)
  const multiplexer = await listen(
    {
      execute: async (messages, onAnswer) => {
        let panic: string | undefined
        await database.execProtocolRawStream(messages, {
          onRawData: (bytes) => {
            panic ??= panicIn(bytes)
            onAnswer(bytes)
          },
        })
        if (panic !== undefined) throw new Error(`PANIC: ${panic}`)
      },
      inTransaction: () => database.isInTransaction(),
    },
    socketPath,
  )
  return async () => {
    await multiplexer.close()
    await database.close()
  }
}

/** Under another name until it is whole: a half-made directory, left by a process that died, would be taken for a database. */
async function create(dataDir: string, assets: PGliteOptions): Promise<void> {
  const unfinished = `${dataDir}.unfinished`
  rmSync(unfinished, { recursive: true, force: true })
  const database = await PGlite.create(unfinished, assets)
  await database.close()
  renameSync(unfinished, dataDir)
}

async function compile(path: string): Promise<WebAssembly.Module> {
  return WebAssembly.compile(await Bun.file(path).arrayBuffer())
}

let running: Promise<() => Promise<void>> | undefined

async function receive(message: ToWorker): Promise<FromWorker> {
  if ("start" in message) {
    running = start(message.start.dataDir, message.start.socketPath)
    await running
    return "ready"
  }
  const stop = await running
  await stop?.()
  return "stopped"
}

self.addEventListener("message", (event: MessageEvent<ToWorker>) => {
  receive(event.data).then(
    (answer) => self.postMessage(answer, []),
    // Thrown outside the promise, so that it is the worker's error and not a rejection.
    (error: unknown) =>
      queueMicrotask(() => {
        throw error
      }),
  )
})
