/**
 * Starts the embedded Postgres in the thread that calls, which it stops for each statement: on files or in memory, behind its
 * socket, with its checkpoints.
 */
import { mkdirSync, renameSync, rmSync } from "node:fs"
import { dirname } from "node:path"
import { PGlite, type PGliteOptions } from "@electric-sql/pglite"
import postgresData from "../../../node_modules/@electric-sql/pglite/dist/pglite.data" with { type: "file" }
import { Checkpoints, type CheckpointTerms, SyncedFiles, syncedStart } from "./checkpoints.ts"
import { isDatabase, sync, syncAll, wasStopped } from "./database-files.ts"
import { listen, type Multiplexer } from "./multiplexer.ts"
import type { Programs } from "./programs.ts"

export interface Start {
  readonly programs: Programs
  /** Undefined: kept nowhere. */
  readonly directory: string | undefined
  readonly socketPath: string
  readonly checkpoints: CheckpointTerms
  /** A commit is on the disk before it is acknowledged. */
  readonly syncsCommits: boolean
}

type FilesOf = (directory: string, syncsCommits: boolean) => SyncedFiles
const plainFiles: FilesOf = (directory, syncsCommits) => new SyncedFiles(directory, syncsCommits)

/** What is told of a database that runs. */
interface Reports {
  /** It has failed, and is of no more use. */
  readonly failed: (error: unknown) => void
  /** It is tried again. */
  readonly checkpointFailed: (error: Error) => void
}

/** Resolves when the database is closed. */
export type Stop = () => Promise<void>

export async function start(terms: Start, reports: Reports, filesOf: FilesOf = plainFiles): Promise<Stop> {
  const { directory, socketPath, programs } = terms
  const assets = {
    pgliteWasmModule: programs.postgres,
    initdbWasmModule: programs.initdb,
    fsBundle: new Blob([await Bun.file(postgresData).arrayBuffer()]),
  }
  if (directory === undefined) return await startInMemory(assets, socketPath, reports)
  if (!isDatabase(directory)) await create(directory, assets)
  return await startOnFiles({ ...terms, directory, files: filesOf(directory, terms.syncsCommits), assets, reports })
}

async function startInMemory(assets: PGliteOptions, socketPath: string, reports: Reports): Promise<Stop> {
  const database = await PGlite.create("memory://", { ...assets, startParams: syncedStart })
  const multiplexer = await serve(database, socketPath, reports, () => {})
  return async () => {
    await multiplexer.close()
    await database.close()
  }
}

interface OnFiles extends Start {
  readonly directory: string
  readonly files: SyncedFiles
  readonly assets: PGliteOptions
  readonly reports: Reports
}

async function startOnFiles({
  directory,
  socketPath,
  checkpoints: terms,
  files,
  assets,
  reports,
}: OnFiles): Promise<Stop> {
  if (!wasStopped(directory)) await syncAll(directory)
  const database = await open(files, assets)
  files.rest()
  const multiplexer = await serve(database, socketPath, reports, () => checkpoints.touch())
  const checkpoints = new Checkpoints({
    database,
    files,
    terms,
    directory,
    between: (work) => multiplexer.between(work),
    onRefused: reports.checkpointFailed,
    onFailure: reports.failed,
  })
  return async () => {
    await multiplexer.close()
    await checkpoints.stop()
    // Closing makes a last checkpoint.
    files.beforeTables()
    await database.close()
  }
}

/** Under another name until it is whole and on the disk: a half-made directory would be taken for a database. */
async function create(directory: string, assets: PGliteOptions): Promise<void> {
  const unfinished = `${directory}.unfinished`
  rmSync(unfinished, { recursive: true, force: true })
  // Not even its names are for others.
  mkdirSync(unfinished, { mode: 0o700 })
  const database = await open(new SyncedFiles(unfinished, true), assets)
  await database.close()
  await syncAll(unfinished)
  renameSync(unfinished, directory)
  sync(dirname(directory))
}

/** As PGlite calls the directory of its files. */
const ITS_DIRECTORY = "/pglite/data"

/** What Postgres says when it cannot start is on its log alone. */
async function open(files: SyncedFiles, assets: PGliteOptions): Promise<PGlite> {
  const reasons: string[] = []
  let lastLine: string | undefined
  const onStderr = (line: string) => {
    lastLine = line.trim() || lastLine
    // Without its time and process.
    const reason = /\b(?:FATAL|PANIC|ERROR): .*/.exec(line)?.[0]
    if (reason !== undefined) reasons.push(reason.replace(/\s+/g, " ").trim())
    return true
  }
  try {
    return await PGlite.create({ ...assets, fs: files, startParams: syncedStart, onStderr })
  } catch (error) {
    const said = reasons.length > 0 ? reasons.join("; ") : lastLine
    throw said === undefined ? error : new Error(said.replaceAll(ITS_DIRECTORY, files.directory), { cause: error })
  }
}

function serve(
  database: PGlite,
  socketPath: string,
  { failed }: Reports,
  onStatement: () => void,
): Promise<Multiplexer> {
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
  return listen({ execute, inTransaction: () => database.isInTransaction() }, socketPath, failed)
}

/**
 * A PANIC of the embedded Postgres, such as of a disk with no room for its log. A server would end all its processes and
 * recover; the embedded one has nobody to do so, and answers every statement with the same PANIC from then on.
 */
const MARK = Buffer.from("SPANIC\0VPANIC\0")

/** What the panic says, if there is one among the answers: an ErrorResponse of that severity. */
function panicIn(answers: Uint8Array): string | undefined {
  const bytes = Buffer.from(answers.buffer, answers.byteOffset, answers.byteLength)
  const start = bytes.indexOf(MARK)
  if (start < 0) return undefined
  // Fields are a letter and a text that ends in a zero byte; an empty one ends the message.
  const end = bytes.indexOf("\0\0", start)
  const fields = bytes.toString("utf8", start, end < 0 ? bytes.length : end).split("\0")
  return fields.find((field) => field.startsWith("M"))?.slice(1) ?? ""
}
