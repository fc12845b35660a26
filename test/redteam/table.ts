/** Every row, in the order in which they are played. */
import type { Row } from "./lib/row.ts"
import { accountsRows } from "./rows/accounts.ts"
import { backendsRows } from "./rows/backends.ts"
import { bodiesRows } from "./rows/bodies.ts"
import { countsRows } from "./rows/counts.ts"
import { crowdsRows } from "./rows/crowds.ts"
import { documentsRows } from "./rows/documents.ts"
import { fieldsRows } from "./rows/fields.ts"
import { groundRows } from "./rows/ground.ts"
import { heldRows } from "./rows/held.ts"
import { keysRows } from "./rows/keys.ts"
import { largeTextsRows } from "./rows/large-texts.ts"
import { streamsRows } from "./rows/streams.ts"
import { textsRows } from "./rows/texts.ts"

export const rows: readonly Row[] = [
  ...countsRows,
  ...documentsRows,
  ...keysRows,
  ...fieldsRows,
  ...streamsRows,
  ...bodiesRows,
  ...textsRows,
  ...largeTextsRows,
  ...backendsRows,
  ...crowdsRows,
  ...accountsRows,
  ...groundRows,
  ...heldRows,
]
