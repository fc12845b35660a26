/**
 * The set-up of each client, in two places: the quick start page fills it in, and `docs/clients.md` has it as it is
 * (`bun src/dashboard/pages/quick-start/document.ts` writes that, and a test holds the one against the other).
 */
import { agents } from "./agents.ts"
import { apps } from "./apps.ts"
import type { Client } from "./client.ts"
import { frameworks } from "./frameworks.ts"
import { sdks } from "./sdks.ts"

/** Python first, then what most people come with. */
export const clients: readonly Client[] = [...sdks, ...agents, ...frameworks, ...apps]
