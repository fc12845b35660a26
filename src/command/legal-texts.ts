/** `loket legal-texts`: the example terms, privacy and refund texts, as files for the operator to fill in. */
import { mkdir, writeFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import { exampleTexts } from "../legal/texts.ts"
import { command, CommandFailure } from "./command.ts"

export const legalTextsCommand = () =>
  command("legal-texts", {
    summary: "Write the example terms, privacy and refund texts into a directory",
    details: "Six files in Markdown, with gaps to fill in. Files that are there are left as they are, and told.",
    examples: [["legal-texts /etc/loket/legal", "then fill them in, and set LEGAL_TEXTS_DIR to that directory"]],
  })
    .argument("<directory>", "made if it is not there")
    .action(async (name) => {
      const directory = resolve(name)
      try {
        await mkdir(directory, { recursive: true })
        for (const [file, text] of Object.entries(exampleTexts)) {
          const isNew = await writeNew(join(directory, file), text)
          console.log(isNew ? join(directory, file) : `kept: ${join(directory, file)} is there already`)
        }
      } catch (error) {
        throw new CommandFailure(
          `the texts cannot be written: ${error instanceof Error ? error.message : String(error)}`,
        )
      }
      console.log(`fill in the gaps, which begin with [ISI: and [FILL IN:, and set LEGAL_TEXTS_DIR=${directory}`)
    })

/** False where the file is there. */
async function writeNew(path: string, text: string): Promise<boolean> {
  try {
    await writeFile(path, text, { flag: "wx" })
    return true
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return false
    throw error
  }
}
