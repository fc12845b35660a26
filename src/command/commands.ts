/** The one table of commands, in the order and the groups in which help shows them. */
import type { CommandUnknownOpts } from "@commander-js/extra-typings"
import { accountCommand } from "./account.ts"
import { archiveCommand } from "./archive.ts"
import { backupCommand } from "./backup/backup.ts"
import { restoreCommand } from "./backup/restore.ts"
import { exchangeRateCommand } from "./exchange-rate.ts"
import { doctorCommand } from "./doctor/doctor.ts"
import { keyCommand } from "./key.ts"
import { legalTextsCommand } from "./legal-texts.ts"
import { migrateCommand } from "./migrate.ts"
import { moveCommand } from "./move.ts"
import { operatorCommand } from "./operator.ts"
import { reconcileCommand } from "./reconcile.ts"
import { seedCommand } from "./seed.ts"
import { devCommand, startCommand } from "./serve.ts"
import { simulatorCommand } from "./simulator.ts"
import { topUpCommand } from "./top-up.ts"

export const commands: Readonly<Record<string, readonly (() => CommandUnknownOpts)[]>> = {
  Run: [startCommand, devCommand, simulatorCommand],
  "Set up": [migrateCommand, seedCommand, operatorCommand, legalTextsCommand],
  "Look after": [accountCommand, keyCommand, topUpCommand, exchangeRateCommand, reconcileCommand],
  "Check and keep": [doctorCommand, backupCommand, restoreCommand, moveCommand, archiveCommand],
}
