/** Canaries that only a PostgreSQL server has a place for: the session locks of processes, and what it notifies. */
import { serverCanaries } from "../of-the-server.ts"
import { watch } from "../detect.ts"

watch(serverCanaries)
