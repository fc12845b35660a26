/** The entry: the command line, and the exit code that it ends with. */
import { runToItsAnswer } from "./command/program.ts"
import { endAtSignals, reachLoopbackDirectly } from "./own-process.ts"

// What this process writes, customers' data and keys among it, is for its own user.
process.umask(0o077)
endAtSignals()
reachLoopbackDirectly()
process.exit(await runToItsAnswer(process.argv.slice(2)))
