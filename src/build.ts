/**
 * `bun run build`: one executable with everything inside. A program and not a command line, because the dashboard's files
 * are bundled and compressed first, and then compiled in.
 */
import { join } from "node:path"
import { bundlePage } from "./dashboard/serve/bundle.ts"

const source = import.meta.dir
const outfile = process.argv[2] ?? "dist/loket"

const files = await bundlePage("best")
const embedded = `const file = (name, type, base64) => ({ name, type, brotli: Uint8Array.fromBase64(base64) })
export const embedded = [
${files.map(({ name, type, brotli }) => `  file(${[name, type, brotli.toBase64()].map((text) => JSON.stringify(text)).join(", ")}),`).join("\n")}
]`

const { logs } = await Bun.build({
  entrypoints: ["main.ts", "store/embedded/worker.ts", "pdf/worker.ts", "bodies/worker.ts"].map((entry) =>
    join(source, entry),
  ),
  minify: true,
  sourcemap: "linked",
  // The settings are those of the environment. By default it would also run what a `bunfig.toml` of the directory that it is called in names,
  // as root perhaps, and take variables from a `.env` there.
  compile: { outfile, autoloadBunfig: false, autoloadDotenv: false },
  plugins: [
    {
      name: "the dashboard's files",
      setup: (build) => {
        build.onLoad({ filter: /dashboard\/serve\/embedded\.ts$/ }, () => ({ contents: embedded, loader: "js" }))
      },
    },
  ],
})
for (const line of logs) console.error(line)
