/** `loket reconcile`: all money, recomputed and compared. */
import { reconcileBooks } from "../reconcile.ts"
import { command, CommandFailure } from "./command.ts"
import { progress } from "./progress.ts"
import { configuration } from "./settings.ts"

export const reconcileCommand = () =>
  command("reconcile", {
    summary: "Recompute all money and compare; freezes an account whose books differ",
    details:
      "Exit codes: 0 when all agrees, 1 when something differs, 2 when it could not be done. May run beside gateways.",
    examples: [
      ["reconcile", "what was compared, and each difference in rupiah"],
      ["reconcile --json", "the same, for machines"],
    ],
  })
    .option("--json", "print JSON")
    .action(async ({ json }) => {
      try {
        const work = reconcileBooks(configuration(), { json: json === true, print: console.log })
        process.exitCode = await progress("comparing the books", work)
      } catch (error) {
        throw new CommandFailure(`not reconciled: ${error instanceof Error ? error.message : String(error)}`, 2)
      }
    })
