/** A run's receipt, asked with the key of the run: for an agent that wants to know what it has left. */
import { Elysia } from "elysia"
import { Failure } from "../failure/failure.ts"
import { authenticate, type Caller, rateHeaders } from "../gateway/authenticate.ts"
import { RUN_NAME, runIdOf } from "../gateway/runs.ts"
import { receiptOf, RUN_ID, runReceipt, type RunsDeps } from "./dashboard/runs.ts"
import { contextOf, edge } from "./edge.ts"
import { documented } from "./route.ts"

type Deps = Pick<RunsDeps, "runs" | "ports">

export const runController = (deps: Deps) => {
  /** Keys without a limit of requests may ask without end; of those that ask at once the database is asked once. */
  const asked = new Map<string, Promise<object | Failure>>()
  const shared = (caller: Caller, named: string) => {
    const name = `${caller.keyHash} ${named}`
    const before = asked.get(name)
    if (before !== undefined) return before
    const asking = receipt(caller, named, deps).finally(() => asked.delete(name))
    asked.set(name, asking)
    return asking
  }
  return new Elysia({ name: "run" }).use(edge).get(
    "/v1/runs/:id",
    async ({ request, params, set }): Promise<object | Failure> => {
      const { actors } = deps.ports
      const caller = await authenticate(actors, request.headers, contextOf(request))
      if (caller instanceof Failure) return caller
      const answer = await shared(caller, params.id)
      const view = await actors.keys.view(caller.keyHash)
      const headers = view instanceof Failure ? {} : rateHeaders(view)
      if (answer instanceof Failure) return answer.withHeaders(headers)
      Object.assign(set.headers, headers, { "cache-control": "no-store" })
      return answer
    },
    documented("key", {
      tag: "Usage",
      summary: "The receipt of a run of this key, as it is now",
      description:
        "`id` is the run's `X-Run-Id`, or its `id`. Free, and one request of the key's window. Runs of other keys, of the same account too, are 404.",
      answer: runReceipt,
    }),
  )
}

async function receipt({ record }: Caller, named: string, deps: Deps): Promise<object | Failure> {
  const { accountId, keyId } = record
  const ids = [...(RUN_NAME.test(named) ? [runIdOf(keyId, named)] : []), ...(RUN_ID.test(named) ? [named] : [])]
  for (const id of ids) {
    const run = await deps.runs.find(accountId, id)
    if (run?.keyId === keyId) return await receiptOf(run, deps)
  }
  return new Failure("resource.not_found")
}
