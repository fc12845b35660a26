/**
 * Preloaded by every test process: properties draw the same each time, so that what has passed once passes again where nothing has
 * changed. `LOKET_SEED` draws something else; `.ci/run --long` does so.
 */
import * as fc from "fast-check"

fc.configureGlobal({ seed: Number(process.env["LOKET_SEED"] ?? 20_261_123) })
