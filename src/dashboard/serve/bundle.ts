/**
 * The page's files as they are served, made from the sources by Bun's bundler: once per process when the gateway runs
 * from its sources, and once for all when the executable is built (`src/build.ts`). The same files either way.
 */
import { fileURLToPath } from "node:url"
import { brotliCompressSync, constants } from "node:zlib"

export interface BundledFile {
  /** Of the page itself `index.html`; of everything else with a hash of its content. */
  readonly name: string
  readonly type: string
  readonly brotli: Uint8Array
}

const ASSETS = "/dashboard/assets/"

/** How long compressing may take: at a start nobody wants to wait, in an executable it is done once. */
export type Effort = "fast" | "best"

export async function bundlePage(effort: Effort): Promise<readonly BundledFile[]> {
  const { outputs } = await Bun.build({
    entrypoints: [fileURLToPath(new URL("../index.html", import.meta.url))],
    minify: true,
    splitting: true,
    publicPath: ASSETS,
    naming: { entry: "[name]-[hash].[ext]", chunk: "[name]-[hash].[ext]", asset: "[name]-[hash].[ext]" },
    // React reads it, and is twice as large without.
    define: { "process.env.NODE_ENV": '"production"' },
  })
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
