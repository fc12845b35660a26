/** `loket reconcile`: all money, recomputed and compared. */
import { reconcileBooks } from "../reconcile.ts"
import { command, CommandFailure, progress } from "./command.ts"
import { configuration } from "./settings.ts"

export const reconcileCommand = () =>
  command("reconcile", {
    summary: "Recompute all money and compare; freezes an account whose books differ",
    details:
      "Reads what is new since all agreed last, and everything once in seven days, or where something differs. Exit codes: 0 when all agrees, 1 when something differs, 2 when it could not be done. May run beside gateways.",
    examples: [
      ["reconcile", "what was compared, and each difference in rupiah"],
      ["reconcile --json", "the same, for machines"],
    ],
  })
    .option("--json", "print JSON")
    .option("--full", "read everything, whatever was found to agree before")
    .action(async ({ json, full }) => {
      let detail = ""
      const terms = {
        json: json === true,
        full: full === true,
        print: console.log,
        progress: (held: number, of: number) => void (detail = `${held} of ${of} claims`),
      }
      try {
        const work = reconcileBooks(configuration(), terms)
        process.exitCode = await progress("comparing the books", work, () => detail)
      } catch (error) {
        throw new CommandFailure(`not reconciled: ${error instanceof Error ? error.message : String(error)}`, 2)
      }
    })
