/** The page's files in each encoding that a browser may ask for, compressed once. */
import { brotliDecompressSync, gzipSync } from "node:zlib"
import type { BundledFile } from "./bundle.ts"

type Encoding = "br" | "gzip" | "identity"

export interface Asset {
  readonly type: string
  readonly bodies: ReadonlyMap<Encoding, Uint8Array<ArrayBuffer>>
}

export interface Assets {
  readonly page: Asset
  readonly files: ReadonlyMap<string, Asset>
}

/** What a second pass of compression makes no smaller. */
const COMPRESSED = /^(?:font\/woff2|image\/(?:png|jpeg|webp|avif))/

export function assetsOf(bundled: readonly BundledFile[]): Assets {
  const files = new Map(bundled.map((file) => [file.name, asset(file)]))
  const page = files.get("index.html")
  if (page === undefined) throw new Error("the bundle has no page")
  files.delete("index.html")
  return { page, files }
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

const accepts = (header: string, encoding: Encoding): boolean =>
  header.split(",").some((part) => {
    const [name, ...parameters] = part.split(";").map((word) => word.trim().toLowerCase())
    return name === encoding && !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))
  })
