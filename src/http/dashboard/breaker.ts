/** `/account/breaker` and `/keys/{id}/breaker`: the most that may be spent within ten minutes, and warnings of what is unusual. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { microToJson } from "../../../actors/money/micro.ts"
import type { Breakers, BreakerView } from "../../accounts/breakers.ts"
import { Failure } from "../../failure/failure.ts"
import type { Breaker, Pause } from "../../store/breakers.ts"
import type { SpendingAlert } from "../../store/alerts.ts"
import { described, exactly, field, fieldAnd, micro as microShape, oneOf, orNull, text, time } from "../shapes.ts"
import { breakerFields, KeyBreaker, PauseMinutes, toBreaker } from "./key-settings.ts"
import { KEY_ID } from "./keys.ts"
import type { AllowanceStore } from "../../store/allowances.ts"
import { type Authenticate, signedInBy, tooOften } from "./session.ts"

export interface BreakerDeps {
  readonly breakers: Breakers
  readonly allowances: Pick<AllowanceStore, "take">
  readonly authenticate: Authenticate
}

const Factor = Type.Integer({
  minimum: 2,
  maximum: 1_000,
  description: field("an integer from 2 to 1,000", "bilangan bulat dari 2 sampai 1.000"),
})
const pausedShape = orNull(
  Type.Object({ since: time, until: orNull(time, field("Null until it is resumed.", "Null sampai dilanjutkan.")) }),
  field("It has come to its ceiling, and its calls are refused.", "Batasnya tercapai, dan panggilannya ditolak."),
)
const ownBreakerFields = {
  ...breakerFields,
  factor: orNull(
    Factor,
    fieldAnd(Factor.description, {
      en: ", or null for no warning: how many times the usual of this hour of the week",
      id: ", atau null untuk tanpa peringatan: berapa kali lipat dari biasanya pada jam ini dalam seminggu",
    }),
  ),
}
const OwnBreaker = exactly(ownBreakerFields)
const alertShape = Type.Object({
  key_id: orNull(
    text,
    field("Null for the account: all its keys together.", "Null untuk akun: semua kuncinya bersama-sama."),
  ),
  key_name: orNull(text),
  why: described(
    oneOf(["ceiling", "usual"]),
    field(
      "What was passed: the owner's own ceiling, or `factor` times what is usual.",
      "Yang terlampaui: batas dari pemiliknya, atau `factor` kali lipat dari biasanya.",
    ),
  ),
  since: time,
  spent_micro: described(
    microShape,
    field("The most within ten minutes so far.", "Yang tertinggi dalam sepuluh menit sejauh ini."),
  ),
  threshold_micro: described(microShape, field("What it was measured by.", "Ukuran pembandingnya.")),
})
const Shown = Type.Intersect(
  [
    Type.Object(ownBreakerFields),
    Type.Object({
      action: oneOf(["warn", "stop"]),
      pause_minutes: orNull(PauseMinutes),
      paused: pausedShape,
      alerts: Type.Array(alertShape),
    }),
  ],
  { $id: "Breaker" },
)

/** Of one account: each is told to all of its keys, in every process. */
const CHANGES_AN_HOUR = 300

export const breakerController = ({ breakers, allowances, authenticate }: BreakerDeps) => {
  const signedIn = signedInBy(authenticate)
  return new Elysia({ name: "dashboard/breaker" })
    .get(
      ...signedIn(
        "/account/breaker",
        {
          may: "read",
          tag: "Account",
          summary: {
            en: "What the account may spend within ten minutes before its owner is warned, and what is unusual now",
            id: "Berapa yang boleh dibelanjakan akun dalam sepuluh menit sebelum pemiliknya diperingatkan, dan apa yang tidak biasa saat ini",
          },
          answer: Shown,
        },
        async ({ session }) => shown(await breakers.view(session)),
      ),
    )
    .put(
      ...signedIn(
        "/account/breaker",
        {
          may: "guard",
          tag: "Account",
          summary: {
            en: "Set the account's ceiling for ten minutes, and how much more than usual is worth a warning",
            id: "Atur batas sepuluh menit akun, dan berapa kali lipat dari biasanya yang perlu diperingatkan",
          },
          description: {
            en: `At most ${CHANGES_AN_HOUR} times an hour; beyond, 429 \`gateway.capacity\`.`,
            id: `Paling banyak ${CHANGES_AN_HOUR} kali per jam; selebihnya 429 \`gateway.capacity\`.`,
          },
          body: OwnBreaker,
          answer: Shown,
        },
        async ({ session, body }) => {
          const allowed = { name: `breaker of ${session.accountId}`, most: CHANGES_AN_HOUR, seconds: 3_600 }
          const message = `An account's breaker is set at most ${CHANGES_AN_HOUR} times an hour.`
          const refused = await tooOften(
            allowances,
            allowed,
            (retryAfterS) => new Failure("gateway.capacity", { message, retryAfterS }),
          )
          if (refused !== undefined) return refused
          return shown(await breakers.setAccount(session, { ...toBreaker(body), factor: body.factor ?? undefined }))
        },
      ),
    )
    .post(
      ...signedIn(
        "/account/breaker/dismiss",
        {
          may: "guard",
          tag: "Account",
          summary: {
            en: "Show the warnings of now no more; what is unusual later is told again",
            id: "Jangan tampilkan lagi peringatan saat ini; yang tidak biasa sesudahnya tetap diberitahukan",
          },
          status: 204,
        },
        async ({ session }) => {
          await breakers.dismiss(session)
          return undefined
        },
      ),
    )
    .post(
      ...signedIn(
        "/account/breaker/resume",
        {
          may: "guard",
          tag: "Account",
          summary: {
            en: "Take calls of a paused account again; what was spent until now counts for its ceiling no more",
            id: "Terima lagi panggilan akun yang dijeda; yang terpakai sampai saat ini tidak lagi dihitung terhadap batasnya",
          },
          status: 204,
        },
        async ({ session }) => {
          const resumed = await breakers.resume(session)
          return resumed instanceof Failure ? resumed : undefined
        },
      ),
    )
    .post(
      ...signedIn(
        "/keys/:id/resume",
        {
          may: "build",
          tag: "Keys",
          summary: {
            en: "Take calls of a paused key again; what it has spent until now counts for its ceiling no more",
            id: "Terima lagi panggilan kunci yang dijeda; yang terpakai sampai saat ini tidak lagi dihitung terhadap batasnya",
          },
          status: 204,
        },
        async ({ session, params }) => {
          if (!KEY_ID.test(params.id)) return new Failure("resource.not_found")
          const resumed = await breakers.resume(session, params.id)
          return resumed instanceof Failure ? resumed : undefined
        },
      ),
    )
    .put(
      ...signedIn(
        "/keys/:id/breaker",
        {
          may: "build",
          tag: "Keys",
          summary: { en: "Set a key's ceiling for ten minutes", id: "Atur batas sepuluh menit sebuah kunci" },
          body: KeyBreaker,
          answer: KeyBreaker,
        },
        async ({ session, params, body }) => {
          if (!KEY_ID.test(params.id)) return new Failure("resource.not_found")
          const set = await breakers.setKey(session, params.id, toBreaker(body))
          return set instanceof Failure ? set : breakerJson(set)
        },
      ),
    )
}

const breakerJson = ({ ceilingMicro, stops, pauseMinutes }: Breaker) => ({
  ceiling_micro: ceilingMicro === undefined ? null : microToJson(ceilingMicro),
  action: stops ? ("stop" as const) : ("warn" as const),
  pause_minutes: pauseMinutes ?? null,
})

const pauseJson = (paused: Pause | undefined) =>
  paused === undefined ? null : { since: paused.since.toISOString(), until: paused.until?.toISOString() ?? null }

const shown = (view: BreakerView | Failure) =>
  view instanceof Failure
    ? view
    : {
        ...breakerJson(view),
        factor: view.factor ?? null,
        paused: pauseJson(view.paused),
        alerts: view.alerts.map(alertJson),
      }

const alertJson = ({ key, why, since, spentMicro, thresholdMicro }: SpendingAlert) => ({
  key_id: key?.id ?? null,
  key_name: key?.name ?? null,
  why,
  since: since.toISOString(),
  spent_micro: microToJson(spentMicro),
  threshold_micro: microToJson(thresholdMicro),
})
