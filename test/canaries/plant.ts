/**
 * Preloaded by a child process of `canaries.test.ts`: plants the fault that `LOKET_CANARY` names into the one source file
 * that has it, while it is loaded. The product itself knows of no fault. Properties play the same each time, and end at once.
 */
import { join } from "node:path"
import { plugin } from "bun"
import * as fc from "fast-check"
import { planted } from "./canary.ts"
import { canaries } from "./table.ts"

fc.configureGlobal({ seed: 1, endOnFailure: true })

const name = Bun.env["LOKET_CANARY"]
const canary = canaries.find((each) => each.name === name)
if (canary === undefined && name !== undefined) throw new Error(`there is no canary ${JSON.stringify(name)}`)

if (canary !== undefined) {
  const path = join(import.meta.dir, "../..", canary.file)
  plugin({
    name: "canary",
    setup: (build) => {
      build.onLoad({ filter: new RegExp(`${RegExp.escape(path)}$`) }, async () => {
        const source = planted(canary, await Bun.file(path).text())
        // A migration is imported as text.
        return path.endsWith(".sql")
          ? { exports: { default: source }, loader: "object" }
          : { contents: source, loader: "ts" }
      })
    },
  })
}
