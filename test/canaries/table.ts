/** All canaries, by what they are faults of. */
import type { Canary } from "./canary.ts"
import { attackCanaries } from "./of-attacks.ts"
import { backupCanaries } from "./of-backups.ts"
import { booksCanaries } from "./of-the-books.ts"
import { callCanaries } from "./of-calls.ts"
import { keyCanaries } from "./of-keys.ts"
import { repeatCanaries } from "./of-repeats.ts"
import { serverCanaries } from "./of-the-server.ts"

export const canaries: readonly Canary[] = [
  ...callCanaries,
  ...attackCanaries,
  ...booksCanaries,
  ...backupCanaries,
  ...keyCanaries,
  ...repeatCanaries,
  ...serverCanaries,
]
