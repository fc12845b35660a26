/**
 * The embedded Postgres, in a worker of its own, because it runs each statement to its end without letting go of its
 * thread. Told where its files and its socket are, it answers "ready" once; told to stop, it closes the database. When the
 * database has failed it says why, and is of no more use.
 */
import { mkdirSync, renameSync, rmSync } from "node:fs"
import { dirname } from "node:path"
import { PGlite, type PGliteOptions } from "@electric-sql/pglite"
// By path, not by name: the package does not export its assets, and only a file import is carried into a compiled binary.
import postgresData from "../../../node_modules/@electric-sql/pglite/dist/pglite.data" with { type: "file" }
import postgresWasm from "../../../node_modules/@electric-sql/pglite/dist/pglite.wasm" with { type: "file" }
import initdbWasm from "../../../node_modules/@electric-sql/pglite/dist/initdb.wasm" with { type: "file" }
import { type CheckpointTerms, Checkpoints, syncLog } from "./checkpoints.ts"
import { isDatabase, sync, syncAll, wasStopped } from "./database-files.ts"
import { listen, type Multiplexer } from "./multiplexer.ts"
import { panicIn } from "./panic.ts"
import { SyncedFiles, syncedStart } from "./synced-files.ts"

export type ToWorker = { readonly start: Start } | { readonly stop: true }
interface Start {
  /** Undefined: kept nowhere. */
  readonly directory: string | undefined
  readonly socketPath: string
  readonly checkpoints: CheckpointTerms
}
export type FromWorker =
  | "ready"
  | "stopped"
  | { readonly failed: string }
  /** It is tried again. */
  | { readonly checkpointFailed: string }

declare const self: Worker

const tell = (message: FromWorker): void => self.postMessage(message, [])
const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

type Stop = () => Promise<void>

async function start({ directory, socketPath, checkpoints }: Start): Promise<Stop> {
  const assets = {
    pgliteWasmModule: await compile(postgresWasm),
    initdbWasmModule: await compile(initdbWasm),
    fsBundle: new Blob([await Bun.file(postgresData).arrayBuffer()]),
  }
  if (directory === undefined) return await startInMemory(assets, socketPath)
  if (!isDatabase(directory)) await create(directory, assets)
  return await startOnFiles({ directory, socketPath, terms: checkpoints, assets })
}

async function startInMemory(assets: PGliteOptions, socketPath: string): Promise<Stop> {
  const database = await PGlite.create("memory://", assets)
  const multiplexer = await serve(database, socketPath, () => {})
  return async () => {
    await multiplexer.close()
    await database.close()
  }
}

interface OnFiles {
  readonly directory: string
  readonly socketPath: string
  readonly terms: CheckpointTerms
  readonly assets: PGliteOptions
}

async function startOnFiles({ directory, socketPath, terms, assets }: OnFiles): Promise<Stop> {
  if (!wasStopped(directory)) await syncAll(directory)
  const files = new SyncedFiles(directory)
  const database = await open(files, assets)
  files.logToo = false
  const multiplexer = await serve(database, socketPath, () => checkpoints.touch())
  const checkpoints = new Checkpoints({
    database,
    files,
    terms,
    directory,
    between: (work) => multiplexer.between(work),
    onRefused: (error) => tell({ checkpointFailed: messageOf(error) }),
    onFailure,
  })
  return async () => {
    await multiplexer.close()
    await checkpoints.stop()
    // Closing makes a last checkpoint.
    syncLog(directory)
    files.logToo = true
    await database.close()
  }
}

/** Under another name until it is whole and on the disk: a half-made directory would be taken for a database. */
async function create(directory: string, assets: PGliteOptions): Promise<void> {
  const unfinished = `${directory}.unfinished`
  rmSync(unfinished, { recursive: true, force: true })
  // Not even its names are for others.
  mkdirSync(unfinished, { mode: 0o700 })
  const database = await open(new SyncedFiles(unfinished), assets)
  await database.close()
  await syncAll(unfinished)
  renameSync(unfinished, directory)
  sync(dirname(directory))
}

/** What Postgres says when it cannot start is on its log alone. */
async function open(files: SyncedFiles, assets: PGliteOptions): Promise<PGlite> {
  const lastWords: string[] = []
  const onStderr = (line: string) => /\b(?:FATAL|PANIC|ERROR): /.test(line) && lastWords.push(line.trim()) > 0
  try {
    return await PGlite.create({ ...assets, fs: files, startParams: syncedStart, onStderr })
  } catch (error) {
    throw new Error(lastWords.length > 0 ? lastWords.join("; ") : messageOf(error), { cause: error })
  }
}

function serve(database: PGlite, socketPath: string, onStatement: () => void): Promise<Multiplexer> {
  const execute = async (messages: Uint8Array, onAnswer: (bytes: Uint8Array) => void) => {
    onStatement()
    let panic: string | undefined
    await database.execProtocolRawStream(messages, {
      onRawData: (bytes) => {
        panic ??= panicIn(bytes)
        onAnswer(bytes)
      },
    })
    if (panic !== undefined) throw new Error(`PANIC: ${panic}`)
  }
  return listen({ execute, inTransaction: () => database.isInTransaction() }, socketPath, onFailure)
}

const onFailure = (error: unknown): void => tell({ failed: messageOf(error) })

async function compile(path: string): Promise<WebAssembly.Module> {
  return WebAssembly.compile(await Bun.file(path).arrayBuffer())
}

let running: Promise<Stop> | undefined

async function receive(message: ToWorker): Promise<FromWorker> {
  if ("start" in message) {
    running = start(message.start)
    await running
    return "ready"
  }
  const stop = await running
  await stop?.()
  return "stopped"
}

self.addEventListener("message", (event: MessageEvent<ToWorker>) => {
  receive(event.data).then(tell, onFailure)
})
