/** The page's files inside the executable: `src/build.ts` puts them in this module's place. From the sources: none. */
import type { BundledFile } from "./bundle.ts"

export const embedded: readonly BundledFile[] | undefined = undefined
