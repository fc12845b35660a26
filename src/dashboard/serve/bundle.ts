/**
 * The page's files as they are served, made from the sources by Bun's bundler: once per process when the gateway runs
 * from its sources, and once for all when the executable is built (`src/build.ts`). The same files either way.
 */
import { fileURLToPath } from "node:url"
import { brotliCompressSync, brotliDecompressSync, constants, gzipSync } from "node:zlib"

export interface BundledFile {
  /** `index.html` for the page itself; any other name has a hash of the content. */
  readonly name: string
  readonly type: string
  readonly brotli: Uint8Array
}

const ASSETS = "/dashboard/assets/"

/** How hard to compress: fast for a start from the sources, best for an executable, which is built once. */
type Effort = "fast" | "best"

export async function bundlePage(effort: Effort): Promise<readonly BundledFile[]> {
  // What visitors get shares no chunk with the dashboard, so that neither waits for more files.
  const built = await Promise.all([build(["../index.html"]), build(["visitor.css", "calculator.ts", "filter.ts"])])
  const outputs = built.flat()
  return await Promise.all(
    outputs.map(async (output) => ({
      name: output.loader === "html" && output.type.startsWith("text/html") ? "index.html" : output.path.slice(2),
      type: output.type,
      brotli: brotliCompressSync(await output.arrayBuffer(), {
        params: { [constants.BROTLI_PARAM_QUALITY]: effort === "best" ? 11 : 6 },
      }),
    })),
  )
}

async function build(entries: readonly string[]): Promise<Bun.BuildArtifact[]> {
  const { outputs } = await Bun.build({
    entrypoints: entries.map((entry) => fileURLToPath(new URL(entry, import.meta.url))),
    minify: true,
    splitting: true,
    publicPath: ASSETS,
    naming: { entry: "[name]-[hash].[ext]", chunk: "[name]-[hash].[ext]", asset: "[name]-[hash].[ext]" },
    // Without it React is twice as large.
    define: { "process.env.NODE_ENV": '"production"' },
  })
  return outputs
}

type Encoding = "br" | "gzip" | "identity"

export interface Asset {
  readonly type: string
  readonly bodies: ReadonlyMap<Encoding, Uint8Array<ArrayBuffer>>
}

export interface Assets {
  readonly page: Asset
  readonly files: ReadonlyMap<string, Asset>
  /** Where a file is, such as `icon.svg`, whose name is another one with each content. */
  readonly addressOf: (file: string) => string
  /** The style sheet of the pages that the server renders, and its SHA-256 in base64. */
  readonly style: { readonly text: string; readonly hash: string }
}

/** Types that are compressed already. */
const COMPRESSED = /^(?:font\/woff2|image\/(?:png|jpeg|webp|avif))/

/** The page's files in each encoding that a browser may ask for, compressed once. */
export function assetsOf(bundled: readonly BundledFile[]): Assets {
  const files = new Map(bundled.map((file) => [file.name, asset(file)]))
  const page = files.get("index.html")
  if (page === undefined) throw new Error("the bundle has no page")
  files.delete("index.html")
  const nameOf = (file: string): string => {
    const [stem = "", ending = ""] = file.split(".")
    const name = [...files.keys()].find((each) => each.startsWith(`${stem}-`) && each.endsWith(`.${ending}`))
    if (name === undefined) throw new Error(`the bundle has no ${file}`)
    return name
  }
  const text = new TextDecoder().decode(files.get(nameOf("visitor.css"))?.bodies.get("identity"))
  const style = { text, hash: new Bun.CryptoHasher("sha256").update(text).digest("base64") }
  return { page, files, style, addressOf: (file) => ASSETS + nameOf(file) }
}

function asset({ type, brotli }: BundledFile): Asset {
  const plain = new Uint8Array(brotliDecompressSync(brotli))
  const bodies = new Map<Encoding, Uint8Array<ArrayBuffer>>([["identity", plain]])
  if (!COMPRESSED.test(type)) bodies.set("br", new Uint8Array(brotli)).set("gzip", new Uint8Array(gzipSync(plain)))
  return { type, bodies }
}

/** The body in the best encoding that an `Accept-Encoding` header allows (RFC 9110, 12.5.3). */
export function encodedFor(asset: Asset, accepted: string): readonly [Encoding, Uint8Array<ArrayBuffer>] {
  for (const encoding of ["br", "gzip", "identity"] as const) {
    const body = asset.bodies.get(encoding)
    if (body !== undefined && (encoding === "identity" || accepts(accepted, encoding))) return [encoding, body]
  }
  throw new Error("an asset without a body")
}

/** No browser names so many languages or encodings in a header, and no more are looked at. */
export const MOST_NAMED = 100

const accepts = (header: string, encoding: Encoding): boolean =>
  header.split(",", MOST_NAMED).some((part) => {
    const [name, ...parameters] = part.split(";", MOST_NAMED).map((word) => word.trim().toLowerCase())
    return name === encoding && !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))
  })
