/**
 * The suites are tested: each canary is planted into a process of its own, where the suite that is to notice it must fail,
 * for the right reason, and must pass without it. A canary that nothing notices is a hole in the suites.
 */
import { watch } from "./detect.ts"
import { attackCanaries } from "./of-attacks.ts"
import { backupCanaries } from "./of-backups.ts"
import { booksCanaries } from "./of-the-books.ts"
import { callCanaries } from "./of-calls.ts"
import { keyCanaries } from "./of-keys.ts"
import { repeatCanaries } from "./of-repeats.ts"

watch([...callCanaries, ...attackCanaries, ...booksCanaries, ...backupCanaries, ...keyCanaries, ...repeatCanaries])
