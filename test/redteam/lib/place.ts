/** Where a gateway of the red team keeps its books: a database of its own on the server, or an embedded one of its own. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Sql } from "../../../src/store/database.ts"
import { openEmbedded } from "../../../src/store/embedded/open.ts"
import { directConnection } from "../../store/harness.ts"

export interface Place extends AsyncDisposable {
  readonly kind: "PostgreSQL" | "embedded"
  readonly env: Readonly<Record<string, string>>
  /** Undefined for an embedded one, which only its gateway reaches. */
  readonly url: string | undefined
  /** The books, while no gateway of the embedded kind has them. */
  books<T>(work: (sql: Sql) => PromiseLike<T>): Promise<T>
}

const SERVER = process.env["DATABASE_URL"] || "postgres://root@127.0.0.1:5432/postgres"

async function on<T>(url: string, work: (sql: Sql) => PromiseLike<T>): Promise<T> {
  const connection = directConnection(url)
  try {
    return await work(connection.sql)
  } finally {
    await connection.end()
  }
}

export async function ownPlace(): Promise<Place> {
  const name = `loket_redteam_${crypto.randomUUID().replaceAll("-", "")}`
  const made = await on(SERVER, (sql) => sql.unsafe(`create database ${name}`)).then(
    () => true,
    () => false,
  )
  const directory = mkdtempSync(join(tmpdir(), "loket-redteam-"))
  const dataDir = join(directory, "data")
  if (!made) {
    return {
      kind: "embedded",
      env: { DATA_DIR: dataDir },
      url: undefined,
      async books(work) {
        const embedded = await openEmbedded({ dataDir })
        try {
          return await on(embedded.url, work)
        } finally {
          await embedded.close()
        }
      },
      async [Symbol.asyncDispose]() {
        rmSync(directory, { recursive: true, force: true })
      },
    }
  }
  const address = new URL(SERVER)
  address.pathname = `/${name}`
  return {
    kind: "PostgreSQL",
    env: { DATABASE_URL: address.href, DATA_DIR: dataDir },
    url: address.href,
    books: (work) => on(address.href, work),
    async [Symbol.asyncDispose]() {
      await on(SERVER, (sql) => sql.unsafe(`drop database if exists ${name} with (force)`))
      rmSync(directory, { recursive: true, force: true })
    },
  }
}
