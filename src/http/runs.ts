/** What a run's key may do with it: read its receipt, for an agent that wants to know what it has left, and end it. */
import { Elysia } from "elysia"
import { Failure } from "../failure/failure.ts"
import { authenticate, type Caller, rateHeaders } from "../gateway/authenticate.ts"
import { RUN_NAME, runIdOf } from "../gateway/runs.ts"
import type { KeptRun } from "../store/runs.ts"
import { endRun, ENDING, receiptOf, RUN_ID, runReceipt, type RunsDeps } from "./dashboard/runs.ts"
import { contextOf, edge } from "./edge.ts"
import { documented } from "./route.ts"
import { together } from "./shapes.ts"

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
  const answered = async (
    { request, set }: { readonly request: Request; readonly set: { headers: object } },
    answerOf: (caller: Caller) => Promise<object | Failure>,
  ): Promise<object | Failure> => {
    const { actors } = deps.ports
    const caller = await authenticate(actors, request.headers, contextOf(request))
    if (caller instanceof Failure) return caller
    const answer = await answerOf(caller)
    const view = await actors.keys.view(caller.keyHash)
    const headers = view instanceof Failure ? {} : rateHeaders(view)
    if (answer instanceof Failure) return answer.withHeaders(headers)
    Object.assign(set.headers, headers, { "cache-control": "no-store" })
    return answer
  }
  return new Elysia({ name: "run" })
    .use(edge)
    .get(
      "/v1/runs/:id",
      (context) => answered(context, (caller) => shared(caller, context.params.id)),
      documented("key", {
        tag: "Usage",
        summary: { en: "The receipt of a run of this key, as it is now", id: "Rincian run kunci ini saat ini" },
        description: {
          en: "`id` is the run's `X-Run-Id`, or its `id`. Free, and one request of the key's window. Runs of other keys, of the same account too, are 404.",
          id: "`id` adalah `X-Run-Id` run itu, atau `id`-nya. Gratis, dan dihitung satu permintaan di jendela kunci. Run milik kunci lain, di akun yang sama juga, dijawab 404.",
        },
        answer: runReceipt,
      }),
    )
    .post(
      "/v1/runs/:id/end",
      (context) => answered(context, (caller) => ended(caller, context.params.id, deps)),
      documented("key", {
        tag: "Usage",
        summary: { en: "End a run of this key before its time", id: "Akhiri run kunci ini sebelum waktunya" },
        description: together(
          { en: "`id` is the run's `X-Run-Id`, or its `id`.", id: "`id` adalah `X-Run-Id` run itu, atau `id`-nya." },
          ENDING,
          {
            en: "Its receipt is answered. Free, and one request of the key's window.",
            id: "Jawabannya adalah rinciannya. Gratis, dan dihitung satu permintaan di jendela kunci.",
          },
        ),
        answer: runReceipt,
      }),
    )
}

async function receipt(caller: Caller, named: string, deps: Deps): Promise<object | Failure> {
  const run = await runOf(caller, named, deps)
  return run === undefined ? new Failure("resource.not_found") : await receiptOf(run, deps)
}

async function ended(caller: Caller, named: string, deps: Deps): Promise<object | Failure> {
  const run = await runOf(caller, named, deps)
  const after = run && (await endRun(run, deps))
  return after === undefined ? new Failure("resource.not_found") : await receiptOf(after, deps)
}

async function runOf({ record }: Caller, named: string, { runs }: Deps): Promise<KeptRun | undefined> {
  const { accountId, keyId } = record
  const ids = [...(RUN_NAME.test(named) ? [runIdOf(keyId, named)] : []), ...(RUN_ID.test(named) ? [named] : [])]
  for (const id of ids) {
    const run = await runs.find(accountId, id)
    if (run?.keyId === keyId) return run
  }
  return undefined
}
