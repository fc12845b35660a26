/** The endpoints that call models, and those that count a request's tokens for nothing. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { affordabilityByHold } from "../gateway/plan-call.ts"
import { authenticate, type Caller, currentRateHeaders } from "../gateway/authenticate.ts"
import { endpointRefused, modelRefused } from "../gateway/eligibility.ts"
import { call } from "../gateway/call.ts"
import type { GatewayPorts } from "../gateway/ports.ts"
import { Failure } from "../failure/failure.ts"
import { formats } from "../wire/protocol.ts"
import type { ClientSide, TokenCounting } from "../wire/format.ts"
import { readPackedBody } from "../gateway/read-body.ts"
import { ORIGINAL_REQUEST_ID } from "../gateway/replayable-call.ts"
import { IDEMPOTENCY_KEY, KEY_DESCRIPTION } from "../store/idempotency-keys.ts"
import { parseRequestBody } from "../gateway/parse-request.ts"
import { RUN_NAME } from "../gateway/runs.ts"
import { estimateInput } from "../gateway/input-estimate.ts"
import type { Endpoint } from "../language/request.ts"
import { fallbackChoice } from "./dashboard/key-settings.ts"
import { dryRunSchema } from "./dry-run-shape.ts"
import { dryRunHeader, type DryRuns, isDryRun } from "./dry-runs.ts"
import { contextOf, edge } from "./edge.ts"
import { documented, type RouteTerms } from "./route.ts"
import { anyObject, field, flag, integer, type Said, text, together } from "./shapes.ts"

const messages = Type.Array(anyObject)
const input = { input: Type.Union([text, messages]) }
const body = (fields: Parameters<typeof Type.Object>[0]) =>
  Type.Object({ model: text, ...fields, stream: Type.Optional(flag) }, { additionalProperties: true })
const COSTS: Said = {
  en: "Answers that do not stream carry `X-Cost-Rp`, what the call cost in Rupiah; a stream says it in micro-rupiah in the comment line `: cost_micro=… request_id=…` right before its last event, 0 where nothing is charged, and `GET /usage/{request_id}` has it too. Fields that the format does not have, and that the model's entry does not pass, are left out and named in `X-Dropped-Fields`: dotted paths, at most 20, then `...`.",
  id: "Jawaban tanpa aliran membawa `X-Cost-Rp`, biaya panggilan dalam rupiah; aliran menyebutnya dalam mikro-rupiah di baris komentar `: cost_micro=… request_id=…` tepat sebelum peristiwa terakhirnya, 0 jika tidak ada yang dibayar, dan `GET /usage/{request_id}` juga menyebutnya. Field yang tidak ada dalam format ini, dan yang tidak diteruskan oleh entri modelnya, dihapus dan disebut di `X-Dropped-Fields`: jalur bertitik, paling banyak 20, lalu `...`.",
}

const OPTIONAL: Said = {
  en: "404 `route.not_found` where the catalogue has no model for it. At most 500,000 token ids stand in a body beside its other values.",
  id: "404 `route.not_found` jika tidak ada model untuk ini di katalog. Paling banyak 500.000 id token dalam satu badan, di samping nilai lainnya.",
}
const texts = Type.Union([text, Type.Array(text), Type.Array(integer), Type.Array(Type.Array(integer))])

/** What the document says of each endpoint's own. The formats' readers check the bodies. */
const terms: Readonly<Record<Endpoint, Pick<RouteTerms, "summary" | "description" | "body">>> = {
  chat: {
    summary: { en: "Chat completions", id: "Panggilan dalam format chat completions" },
    description: COSTS,
    body: body({ messages }),
  },
  messages: {
    summary: { en: "Messages", id: "Panggilan dalam format messages" },
    description: COSTS,
    body: body({ max_tokens: integer, messages }),
  },
  responses: {
    summary: { en: "Responses", id: "Panggilan dalam format responses" },
    description: together(COSTS, {
      en: 'Without streaming, a failure after the first keepalive is a body with `status: "failed"` under 200.',
      id: 'Tanpa aliran, kegagalan setelah keepalive pertama adalah badan dengan `status: "failed"` di bawah 200.',
    }),
    body: body(input),
  },
  completions: {
    summary: { en: "Completions", id: "Panggilan dalam format completions" },
    description: together(COSTS, OPTIONAL, {
      en: "`max_tokens` is 16 unless it is said. `best_of` and `n` answers are made for each prompt, at most 128 in all, and each is paid for.",
      id: "`max_tokens` adalah 16 jika tidak disebut. Jawaban sebanyak `best_of` dan `n` dibuat untuk setiap prompt, paling banyak 128 seluruhnya, dan masing-masing dibayar.",
    }),
    body: body({ prompt: texts }),
  },
  embeddings: {
    summary: { en: "Embeddings", id: "Panggilan untuk embedding" },
    description: together(COSTS, OPTIONAL, {
      en: "At most 2,048 texts, and 100 where vectors are not asked for with `encoding_format` base64, as SDKs do by themselves. Only input is paid for.",
      id: "Paling banyak 2.048 teks, dan 100 jika vektor tidak diminta dengan `encoding_format` base64, seperti yang dilakukan SDK dengan sendirinya. Hanya masukan yang dibayar.",
    }),
    body: Type.Object({ model: text, input: texts }, { additionalProperties: true }),
  },
}

const headers = Type.Object({
  "X-Dry-Run": dryRunHeader,
  [IDEMPOTENCY_KEY]: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description: field(
        `${KEY_DESCRIPTION}, made anew for each call: within 24 hours the call is made and charged once, however often it is sent with the same API key and body. While it runs, a repeat reads along from the first byte, at most four at a time; for ten minutes after its end it gets the same bytes again. Then 409 \`idempotency.finished\` names the call and what it cost; with another body, 409 \`idempotency.mismatch\`; on another machine, while it runs there, 409 \`idempotency.in_progress\`. A replay has \`Idempotency-Replayed: true\`, the first call's id in \`${ORIGINAL_REQUEST_ID}\` and its \`X-Cost-Rp\`; it counts in the request window, costs nothing, and has no usage record. A call that failed frees its key. What an SDK sends again by itself (\`x-stainless-retry-count\` of 1 or more) needs no key: see \`replays_retries\` of a key.`,
        `1 sampai 255 karakter ASCII yang terlihat, baru untuk setiap panggilan: dalam 24 jam panggilan dilakukan dan dibayar sekali saja, seberapa sering pun dikirim dengan kunci API dan badan yang sama. Selama berjalan, ulangannya ikut membaca dari byte pertama, paling banyak empat sekaligus; sampai sepuluh menit setelah berakhir, ulangannya mendapat byte yang sama lagi. Sesudah itu 409 \`idempotency.finished\` menyebut panggilannya dan biayanya; dengan badan lain, 409 \`idempotency.mismatch\`; di mesin lain selama berjalan di sana, 409 \`idempotency.in_progress\`. Ulangan membawa \`Idempotency-Replayed: true\`, id panggilan pertama di \`${ORIGINAL_REQUEST_ID}\`, dan \`X-Cost-Rp\`-nya; ulangan dihitung di jendela permintaan, gratis, dan tidak punya catatan pemakaian. Panggilan yang gagal membebaskan kuncinya. Yang dikirim ulang sendiri oleh SDK (\`x-stainless-retry-count\` 1 atau lebih) tidak memerlukan kunci ini: lihat \`replays_retries\` sebuah kunci.`,
      ),
    }),
  ),
  "X-Run-Id": Type.Optional(
    Type.RegExp(RUN_NAME, {
      description: field(
        "The run that the call is one of: 1 to 64 letters, digits, `.`, `_`, `:` and `-`, of which the first is a letter or a digit. All calls of the key with this id spend at most the run's budget; then, and from the run's end on (7 days after its first call), they are answered 402 `quota.run_limit_exceeded`. Answers carry `X-Run-Limit-Micro`, `X-Run-Usage-Micro` and `X-Run-Remaining-Micro`.",
        "Run tempat panggilan ini termasuk: 1 sampai 64 huruf, angka, `.`, `_`, `:`, dan `-`, yang pertama huruf atau angka. Semua panggilan kunci dengan id ini paling banyak membelanjakan anggaran run; sesudah itu, dan sejak run berakhir (7 hari setelah panggilan pertamanya), jawabannya 402 `quota.run_limit_exceeded`. Jawaban membawa `X-Run-Limit-Micro`, `X-Run-Usage-Micro`, dan `X-Run-Remaining-Micro`.",
      ),
    }),
  ),
  "X-Run-Budget-Rp": Type.Optional(
    Type.RegExp(/^[1-9]\d{0,9}$/, {
      description: field(
        "The run's budget in whole rupiah, from 1 to 1,000,000,000. The first call of a run has to say it; another value later is 400 `run.budget_mismatch`.",
        "Anggaran run dalam rupiah bulat, dari 1 sampai 1.000.000.000. Panggilan pertama sebuah run harus menyebutnya; nilai lain sesudahnya dijawab 400 `run.budget_mismatch`.",
      ),
    }),
  ),
  "X-Fallback": Type.Optional({
    ...fallbackChoice,
    description: field(
      "For this call in place of the key's `fallback`; a key that is `off` stays off. A rerouted answer has the headers `X-Model` and `X-Rerouted-From`, unless its head had gone with a heartbeat; `model` in the body always names the model that answered.",
      "Untuk panggilan ini, sebagai pengganti `fallback` kunci; kunci yang `off` tetap `off`. Jawaban yang dialihkan membawa `X-Model` dan `X-Rerouted-From`, kecuali kepalanya sudah terkirim bersama detak; `model` di badan selalu menyebut model yang menjawab.",
    ),
  }),
})

/** The paths of formats that some catalogue may have no model for are not there then (gateway-api.md, "Method errors"). */
export function isPathThere(catalogue: GatewayPorts["catalogue"]): (path: string) => boolean {
  const optional = new Map(
    Object.values(formats).flatMap(({ client }) =>
      client.isOptional ? [[client.path, client.endpoint] as const] : [],
    ),
  )
  return (path) => {
    const endpoint = optional.get(path)
    return endpoint === undefined || catalogue.serves(endpoint)
  }
}

/** Every format that clients speak. */
export function callsController(ports: GatewayPorts, dryRuns: DryRuns) {
  const app = new Elysia({ name: "calls" })
  for (const { client } of Object.values(formats)) {
    app.use(callController(ports, dryRuns, client))
    if (client.counting !== undefined) app.use(countTokensController(ports, client, client.counting))
  }
  return app
}

const callController = (ports: GatewayPorts, dryRuns: DryRuns, format: ClientSide) =>
  new Elysia({ name: `call:${format.endpoint}` }).use(edge).post(
    format.path,
    ({ request }) =>
      isDryRun(request)
        ? dryRuns.answer(format, request, contextOf(request))
        : call(ports, format, request, contextOf(request)),
    documented("key", {
      tag: "Calls",
      ...terms[format.endpoint],
      headers,
      answer: Type.Union([anyObject, dryRunSchema]),
      media: "text/event-stream",
    }),
  )

/**
 * Answered from the estimator, free, outside the request window (decisions §8): coding agents call it many times a minute.
 */
const countTokensController = (ports: GatewayPorts, format: ClientSide, counting: TokenCounting) =>
  new Elysia({ name: `count-tokens:${format.endpoint}` }).use(edge).post(
    counting.path,
    async ({ request, requestId, set }) => {
      const caller = await authenticate(ports.actors, request.headers, contextOf(request), false)
      if (caller instanceof Failure) return caller
      const tokens = await countTokens(ports, { format, counting, request, requestId, caller })
      const rates = await currentRateHeaders(ports.actors, caller.keyHash)
      if (tokens instanceof Failure) return tokens.withHeaders(rates)
      Object.assign(set.headers, rates)
      return { ...counting.answer, input_tokens: tokens }
    },
    documented("key", {
      tag: "Calls",
      summary: {
        en: "An estimate of a request's input tokens, free",
        id: "Perkiraan token masukan sebuah permintaan, gratis",
      },
      body: format.endpoint === "responses" ? body(input) : body({ messages }),
      answer: Type.Object({
        ...Object.fromEntries(Object.entries(counting.answer).map(([name, value]) => [name, Type.Literal(value)])),
        input_tokens: integer,
      }),
    }),
  )

interface Counted {
  readonly format: ClientSide
  readonly counting: TokenCounting
  readonly request: Request
  readonly requestId: string
  readonly caller: Caller
}

async function countTokens(
  ports: GatewayPorts,
  { format, counting, request, requestId, caller }: Counted,
): Promise<number | Failure> {
  const notHere = endpointRefused(caller.record, format.endpoint)
  if (notHere !== undefined) return notHere
  const { limits, clock } = ports
  const { accountId } = caller.record
  const means = affordabilityByHold(ports, caller, requestId)
  using reservation = ports.bodies.reservationFor(accountId)
  const bytes = await readPackedBody(request, {
    maxBytes: limits.maxBodyBytes,
    idleMs: limits.bodyIdleMs,
    clock,
    reservation,
    // Free, so that one large body is nobody's business; but not many at once of whoever has no money.
    admit: (size, holdsMuch) => (holdsMuch ? means.body({ bytes: size, isHeavy: true }) : undefined),
  })
  if (bytes instanceof Failure) return bytes
  const read = await parseRequestBody(bytes, format.endpoint, ports, accountId)
  if (read instanceof Failure) return read
  using held = new DisposableStack()
  held.defer(() => read.release())
  const offer = ports.catalogue.find(read.model, clock.now())
  if (offer === undefined) return new Failure("model.unknown")
  if (!offer.model.endpoints.has(format.endpoint))
    return new Failure("request.invalid", { message: "The model is not served on this endpoint." })
  const notFor = modelRefused(caller.record.binding, read.model, offer)
  if (notFor !== undefined) return notFor
  const decoded = await read.decode({ more: counting.defaults })
  if (decoded instanceof Failure) return decoded
  const canAfford = (tokens: number) => means.input({ tokens, rates: offer.price.rates })
  const { likely } = await estimateInput({ request: decoded, model: offer.model, accountId, canAfford }, ports)
  return likely
}
