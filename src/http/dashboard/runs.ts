/** `/runs`: what an account's runs may spend, have spent, and on what; and a run that is made before its first call. */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { micro, microToJson, minus, notNegative } from "../../../actors/money/micro.ts"
import { noTokens, type Tokens } from "../../../actors/money/price.ts"
import type { Keys } from "../../accounts/keys.ts"
import { Failure } from "../../failure/failure.ts"
import type { GatewayPorts } from "../../gateway/ports.ts"
import { makeRun, MAX_RUN_BUDGET, newRunName, RUN_NAME } from "../../gateway/runs.ts"
import type { KeptRun, RunOfModel, RunStore } from "../../store/runs.ts"
import { refused } from "../route.ts"
import {
  described,
  exactly,
  field,
  integer,
  micro as microShape,
  oneOf,
  pageOf,
  type Said,
  text,
  time,
  together,
} from "../shapes.ts"
import { timeFrom } from "./key-settings.ts"
import { KEY_ID } from "./keys.ts"
import { pageJson, pageQuery, readPage, readsInTurn } from "./page.ts"
import { type Authenticate, signedInBy } from "./session.ts"
import { tokenCounts, tokensJson } from "./usage-rows.ts"

export interface RunsDeps {
  readonly runs: RunStore
  readonly keys: Keys
  readonly ports: Pick<GatewayPorts, "actors" | "clock">
  readonly authenticate: Authenticate
}

export const RUN_ID = /^run_[A-Za-z0-9_-]{1,40}$/
const LONGEST_DAYS = 90
const DAY_MS = 24 * 60 * 60 * 1_000
const inTurn = readsInTurn()

export const runShape = Type.Object(
  {
    id: text,
    name: described(
      text,
      field(
        "What calls send as `X-Run-Id`; one run of its key.",
        "Yang dikirim panggilan sebagai `X-Run-Id`; satu run dari kuncinya.",
      ),
    ),
    key_id: text,
    status: oneOf(["open", "ended"]),
    budget_micro: microShape,
    spent_micro: microShape,
    held_micro: described(
      microShape,
      field(
        "By calls under way in the process that answers.",
        "Oleh panggilan yang sedang berjalan di proses yang menjawab.",
      ),
    ),
    remaining_micro: described(
      microShape,
      field("What is neither spent nor held.", "Yang belum terpakai dan tidak ditahan."),
    ),
    created_at: time,
    ends_at: described(
      time,
      field(
        "From then on its calls are answered 402 `quota.run_limit_exceeded`.",
        "Sejak itu panggilannya dijawab 402 `quota.run_limit_exceeded`.",
      ),
    ),
  },
  { $id: "Run" },
)
const counts = {
  calls: described(
    integer,
    field("Calls that were forwarded and have ended.", "Panggilan yang diteruskan dan sudah berakhir."),
  ),
  ok_calls: described(integer, field("Those that were answered.", "Yang dijawab.")),
  ...tokenCounts,
  charge_micro: microShape,
}
const ofModel = Type.Object({ model: text, ...counts })
/** Its calls and tokens, whole and by the model that answered. */
export const runReceipt = Type.Intersect([
  runShape,
  Type.Object({
    ...counts,
    models: Type.Array(ofModel, { description: field("The dearest first.", "Yang termahal dulu.") }),
  }),
])

const NewRun = exactly({
  key_id: Type.RegExp(KEY_ID, { description: field("a key's id", "id sebuah kunci") }),
  budget_micro: Type.Integer({
    minimum: 1,
    maximum: Number(MAX_RUN_BUDGET),
    description: field(
      `an integer of micro-rupiah from 1 to ${MAX_RUN_BUDGET}`,
      `bilangan bulat mikro-rupiah dari 1 sampai ${MAX_RUN_BUDGET}`,
    ),
  }),
  name: Type.Optional(
    Type.RegExp(RUN_NAME, {
      description: field(
        "1 to 64 letters, digits, '.', '_', ':' and '-', of which the first is a letter or a digit",
        "1 sampai 64 huruf, angka, '.', '_', ':', dan '-', yang pertama huruf atau angka",
      ),
    }),
  ),
  ends_at: Type.Optional(
    Type.String({
      description: field(
        `a time such as 2026-11-20T09:00:00Z, in the future and within ${LONGEST_DAYS} days`,
        `waktu seperti 2026-11-20T09:00:00Z, yang akan datang dan paling lama ${LONGEST_DAYS} hari lagi`,
      ),
    }),
  ),
})

export const runsController = ({ runs, keys, ports, authenticate }: RunsDeps) => {
  const signedIn = signedInBy(authenticate)
  const { actors, clock } = ports
  return new Elysia({ name: "dashboard/runs" })
    .get(
      ...signedIn(
        "/runs",
        {
          may: "read",
          tag: "Usage",
          summary: { en: "Runs, the newest first", id: "Run, dari yang terbaru" },
          description: {
            en: "A run is kept for 30 days after its end; the records of its calls stay.",
            id: "Run disimpan 30 hari setelah berakhir; catatan panggilannya tetap ada.",
          },
          query: Type.Object({
            key_id: Type.Optional(Type.RegExp(KEY_ID, { description: field("a key's id", "id sebuah kunci") })),
            ...pageQuery,
          }),
          answer: pageOf(runShape),
        },
        async ({ session: { accountId }, query }) => {
          const page = readPage(query, [RUN_ID])
          if (page instanceof Failure) return page
          const found = await runs.list(
            { accountId, keyId: query.key_id },
            { after: page.after?.[0], limit: page.limit + 1 },
          )
          const held = new Map(
            await Promise.all(found.map(async ({ runId }) => [runId, await actors.runs.viewIfActive(runId)] as const)),
          )
          return pageJson(found, page, {
            item: (run) => runJson(run, clock.now(), held.get(run.runId)?.held),
            placeOf: ({ runId }) => [runId],
          })
        },
      ),
    )
    .post(
      ...signedIn(
        "/runs",
        {
          may: "build",
          tag: "Usage",
          summary: { en: "Make a run before its first call", id: "Buat run sebelum panggilan pertamanya" },
          description: {
            en: "Without `name` it has one made up. Where the key has a run of that name with the same budget, that one is answered. Without `ends_at` it ends 7 days from now.",
            id: "Tanpa `name`, namanya dibuatkan. Jika kunci sudah punya run dengan nama dan anggaran yang sama, run itulah jawabannya. Tanpa `ends_at`, run berakhir 7 hari lagi.",
          },
          body: NewRun,
          answer: runShape,
          status: 201,
        },
        async ({ session: { accountId }, body, change }) => {
          const now = clock.now()
          const endsAt = body.ends_at === undefined ? undefined : (timeFrom(body.ends_at)?.getTime() ?? NaN)
          if (endsAt !== undefined && !(endsAt > now && endsAt <= now + LONGEST_DAYS * DAY_MS)) {
            return refused("ends_at", String(NewRun.properties.ends_at.description))
          }
          const key = await keys.read({ accountId, keyId: body.key_id })
          if (key === undefined) return new Failure("resource.not_found")
          if (key.revokedAt !== undefined) return refused("key_id", "the id of a key that is not revoked")
          // A change that is carried out again makes the same run.
          const name = body.name ?? newRunName(change?.keyHash)
          const asked = { accountId, keyId: key.id, name, budget: micro(BigInt(body.budget_micro)) }
          const made = await makeRun(runs, asked, { now, endsAt })
          if (made instanceof Failure) return made
          const run = await runs.find(accountId, made)
          return run === undefined ? new Failure("resource.not_found") : runJson(run, now)
        },
      ),
    )
    .get(
      ...signedIn(
        "/runs/:id",
        {
          may: "read",
          tag: "Usage",
          summary: { en: "A run's receipt, as it is now", id: "Rincian run saat ini" },
          answer: runReceipt,
        },
        async ({ session: { accountId }, params: { id } }) => {
          const run = RUN_ID.test(id) ? await runs.find(accountId, id) : undefined
          return run === undefined ? new Failure("resource.not_found") : await receiptOf(run, { runs, ports })
        },
      ),
    )
    .post(
      ...signedIn(
        "/runs/:id/end",
        {
          may: "build",
          tag: "Usage",
          summary: { en: "End a run before its time", id: "Akhiri run sebelum waktunya" },
          description: together(ENDING, { en: "Its receipt is answered.", id: "Jawabannya adalah rinciannya." }),
          answer: runReceipt,
        },
        async ({ session: { accountId }, params: { id } }) => {
          const run = RUN_ID.test(id) ? await endRun({ accountId, runId: id }, { runs, ports }) : undefined
          return run === undefined ? new Failure("resource.not_found") : await receiptOf(run, { runs, ports })
        },
      ),
    )
}

export const ENDING: Said = {
  en: "Its next call is 402 `quota.run_limit_exceeded`, and so is one that waits for a slot; calls that were forwarded end within what they hold. A run that has ended stays as it is.",
  id: "Panggilan berikutnya, juga yang masih menunggu slot, dijawab 402 `quota.run_limit_exceeded`; yang sudah diteruskan berakhir dalam batas yang sudah ditahan. Run yang sudah berakhir tidak berubah.",
}

/** In force here when it resolves, and in the other processes once they have heard of it. Undefined where there is no such run. */
export async function endRun(
  { accountId, runId }: { readonly accountId: string; readonly runId: string },
  { runs, ports: { actors, clock } }: Pick<RunsDeps, "runs" | "ports">,
): Promise<KeptRun | undefined> {
  const run = await runs.end(accountId, runId, clock.now())
  if (run !== undefined) actors.runs.ended(runId, run.endsAt)
  return run
}

function runJson(run: KeptRun, now: number, held = micro(0n)): Static<typeof runShape> {
  return {
    id: run.runId,
    name: run.name,
    key_id: run.keyId,
    status: run.endsAt > now ? "open" : "ended",
    budget_micro: microToJson(run.budget),
    spent_micro: microToJson(run.spent),
    held_micro: microToJson(held),
    remaining_micro: microToJson(notNegative(minus(minus(run.budget, run.spent), held))),
    created_at: run.createdAt.toISOString(),
    ends_at: new Date(run.endsAt).toISOString(),
  }
}

/** Also what the run's key may read. */
export async function receiptOf(
  run: KeptRun,
  { runs, ports: { actors, clock } }: Pick<RunsDeps, "runs" | "ports">,
): Promise<Static<typeof runReceipt> | Failure> {
  const read = () => Promise.all([runs.models(run.runId), actors.runs.viewIfActive(run.runId)])
  const summed = await inTurn(run.accountId, read)
  if (summed instanceof Failure) return summed
  const [models, view] = summed
  const total = models.reduce<Counted>(
    (sum, model) => ({
      calls: sum.calls + model.calls,
      ok: sum.ok + model.ok,
      tokens: added(sum.tokens, model.tokens),
      chargeMicro: micro(sum.chargeMicro + model.chargeMicro),
    }),
    { calls: 0, ok: 0, tokens: noTokens, chargeMicro: micro(0n) },
  )
  return {
    ...runJson(run, clock.now(), view?.held),
    ...countsJson(total),
    models: models.map((model) => ({ model: model.model, ...countsJson(model) })),
  }
}

type Counted = Omit<RunOfModel, "model">

const countsJson = ({ calls, ok, tokens, chargeMicro }: Counted) => ({
  calls,
  ok_calls: ok,
  ...tokensJson(tokens),
  charge_micro: microToJson(chargeMicro),
})

const added = (a: Tokens, b: Tokens): Tokens => ({
  input: a.input + b.input,
  output: a.output + b.output,
  cacheRead: a.cacheRead + b.cacheRead,
  cacheWrite: a.cacheWrite + b.cacheWrite,
})
