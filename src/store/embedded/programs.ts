/**
 * The WebAssembly of the embedded Postgres, compiled once a process: every worker that runs a database takes it as it is,
 * with what the engine has made of it while other databases ran.
 */
import initdbWasm from "../../../node_modules/@electric-sql/pglite/dist/initdb.wasm" with { type: "file" }
import postgresWasm from "../../../node_modules/@electric-sql/pglite/dist/pglite.wasm" with { type: "file" }

export interface Programs {
  readonly postgres: WebAssembly.Module
  readonly initdb: WebAssembly.Module
}

let compiled: Promise<Programs> | undefined

export const programs = (): Promise<Programs> => (compiled ??= compileBoth())

async function compileBoth(): Promise<Programs> {
  const [postgres, initdb] = await Promise.all([compile(postgresWasm), compile(initdbWasm)])
  return { postgres, initdb }
}

async function compile(path: string): Promise<WebAssembly.Module> {
  return WebAssembly.compile(await Bun.file(path).arrayBuffer())
}
