/**
 * `/status`: what is served now, in plain words, as the process that answers sees it, and what operators say of it. Of a model it says
 * whether it answers, and nothing of who is behind it: no provider, no member of its pool, no count, no cost.
 */
import { Elysia } from "elysia"
import type { LiveCatalogue } from "../../catalogue/model.ts"
import { type BackendHealth, type BackendView, failureClasses } from "../../gateway/backend-health.ts"
import type { PoolMember, Pools } from "../../gateway/pools.ts"
import { edge } from "../../http/edge.ts"
import { type Readiness, readyNow } from "../../http/health.ts"
import type { NoteText, StatusNoteStore } from "../../store/operator/status-notes.ts"
import { formatRupiah } from "../i18n/figures.ts"
import { perMillion } from "../pages/models/choose.ts"
import { microToJson } from "../../../actors/money/micro.ts"
import { escaped, framed } from "./frame.ts"
import { KeptPage, type Language, languageOf, onceASecond } from "./kept.ts"

export interface StatusParts {
  readonly catalogue: LiveCatalogue
  readonly pools: Pools
  readonly health: BackendHealth
  readonly readiness: Readiness
  readonly notes: Pick<StatusNoteStore, "list">
  readonly now: () => number
  readonly supportContact: string | undefined
}

export type Health = "well" | "troubled" | "away"

/** So many failures say something. */
const MIN_FAULTS = 3
/** From this share of the tries on, callers feel it. */
const TROUBLED = 0.2

/** Of one model: its pool without members that are disabled, and how they did in the last minutes. */
export function healthOf(members: readonly PoolMember[], views: readonly BackendView[], nowMs: number): Health {
  if (members.length === 0) return "away"
  const answered = views.reduce((sum, view) => sum + view.answered, 0)
  // A request that a backend did not take says nothing of the backend.
  const faults = views.reduce(
    (sum, { failures }) =>
      sum + failureClasses.reduce((all, name) => all + (name === "refused_request" ? 0 : failures[name]), 0),
    0,
  )
  if (faults >= MIN_FAULTS && answered === 0) return "away"
  const isShut = members.every((member) =>
    [member.own, member.credential].some(({ circuit }) => circuit.state(nowMs) === "open"),
  )
  return isShut || (faults >= MIN_FAULTS && faults >= TROUBLED * (answered + faults)) ? "troubled" : "well"
}

/** What an operator wrote; milliseconds since the epoch. */
interface Note {
  readonly text: NoteText
  readonly createdAt: number
  readonly updatedAt: number
  readonly resolvedAt: number | undefined
}

/** What is over is shown for so long, and so many notes at most. */
const RESOLVED_MS = 7 * 24 * 60 * 60 * 1000
const MAX_NOTES = 20

/** The notes as they were last read: the page answers while the database is away, when it is most looked at. */
export function lastNotes({ notes, now }: Pick<StatusParts, "notes" | "now">): () => Promise<readonly Note[]> {
  let last: readonly Note[] = []
  return async () => {
    try {
      const found = await notes.list(new Date(now() - RESOLVED_MS), MAX_NOTES)
      last = found.map(({ text, createdAt, updatedAt, resolvedAt }) => ({
        text,
        createdAt: createdAt.getTime(),
        updatedAt: updatedAt.getTime(),
        resolvedAt: resolvedAt?.getTime(),
      }))
    } catch {
      // The verdict says that the house has trouble.
    }
    return last
  }
}

interface Seen {
  readonly notes: readonly Note[]
  readonly isReady: boolean
  readonly models: readonly { readonly id: string; readonly name: string; readonly health: Health }[]
  readonly prices: readonly {
    readonly name: string
    readonly at: number
    readonly input: readonly [now: number, then: number]
    readonly output: readonly [now: number, then: number]
  }[]
  readonly retiring: readonly { readonly id: string; readonly target: string; readonly until: number }[]
}

async function lookAround(
  { catalogue, pools, health, readiness, now }: StatusParts,
  notes: () => Promise<readonly Note[]>,
): Promise<Seen> {
  const at = now()
  const offers = catalogue.offers(at)
  const views = Map.groupBy(health.views(), ({ model }) => model)
  const [{ isReady }, written] = await Promise.all([readyNow(readiness), notes()])
  return {
    isReady,
    notes: written,
    models: offers.map(({ model }) => ({
      id: model.id,
      name: model.displayName,
      health: healthOf(pools.of(model).members, views.get(model.id) ?? [], pools.clock.monotonic()),
    })),
    prices: offers.flatMap((offer) => {
      const next = catalogue.coming(offer, at)
      if (next === undefined) return []
      const both = (rate: "input" | "output") =>
        [microToJson(offer.price.rates[rate]), microToJson(next.rates[rate])] as const
      return [{ name: offer.model.displayName, at: next.effectiveAt, input: both("input"), output: both("output") }]
    }),
    retiring: catalogue.retiring(at).map(({ id, target, until }) => ({ id, target, until: until.getTime() })),
  }
}

export const statusController = (parts: StatusParts) => {
  const page = new KeptPage()
  const notes = lastNotes(parts)
  const look = onceASecond(async () => {
    const seen = await lookAround(parts, notes)
    return { seen, of: JSON.stringify(seen) }
  })
  return new Elysia({ name: "status" }).use(edge).get("/status", async ({ request }) => {
    const { seen, of } = await look()
    const language = languageOf(
      new URL(request.url).searchParams.get("lang"),
      request.headers.get("accept-language") ?? "",
    )
    return await page.answer(request, {
      language,
      of,
      base: "",
      vary: "Accept-Language, Accept-Encoding",
      make: () => statusPage(seen, language, parts.supportContact),
    })
  })
}

function statusPage(seen: Seen, language: Language, supportContact: string | undefined): Promise<string> {
  const text = words[language]
  const bad = seen.models.filter(({ health }) => health !== "well")
  const [tone, summary] = !seen.isReady
    ? (["bad", text.notReady] as const)
    : bad.length === 0
      ? (["good", text.allWell] as const)
      : (["warn", text.someNot(bad.length, seen.models.length)] as const)
  const date = new Intl.DateTimeFormat(language === "id" ? "id-ID" : "en-GB", {
    dateStyle: "long",
    timeStyle: "short",
    timeZone: "Asia/Jakarta",
  })
  const when = (at: number) => `<time datetime="${new Date(at).toISOString()}">${date.format(at)} WIB</time>`
  const each = (micro: number) => formatRupiah(perMillion(micro), language)
  // Those in trouble first.
  const models = [...bad, ...seen.models.filter(({ health }) => health === "well")].map(
    ({ id, name, health }) =>
      `<tr><th scope="row">${escaped(name)} <code>${escaped(id)}</code></th><td><span class="health health-${health}">${text.health[health]}</span></td></tr>`,
  )
  const coming = [
    ...seen.prices.map(
      ({ name, at, input, output }) =>
        `<li>${text.price({ name: `<strong>${escaped(name)}</strong>`, when: when(at), input: input.map(each).join(" → "), output: output.map(each).join(" → ") })}</li>`,
    ),
    ...seen.retiring.map(
      ({ id, target, until }) =>
        `<li>${text.retires(`<code>${escaped(id)}</code>`, `<code>${escaped(target)}</code>`, when(until))}</li>`,
    ),
  ]
  const noteOf = ({ text: said, createdAt, updatedAt, resolvedAt }: Note) => {
    const [state, health] = resolvedAt === undefined ? [text.open, "troubled"] : [text.resolved, "well"]
    const times = [
      text.since(when(createdAt)),
      ...(updatedAt > createdAt ? [text.updated(when(updatedAt))] : []),
      ...(resolvedAt === undefined ? [] : [text.over(when(resolvedAt))]),
    ]
    return `<li class="card"><p class="note-text">${escaped(said[language])}</p>
<p class="status-note"><span class="health health-${health}">${state}</span> ${times.join(" ")}</p></li>`
  }
  const notesOf = (title: string, notes: readonly Note[]) =>
    notes.length === 0
      ? ""
      : `<section class="notes"><h2>${title}</h2><ul>${notes.map(noteOf).join("\n")}</ul></section>`
  const [open, over] = [true, false].map((isOpen) =>
    seen.notes.filter(({ resolvedAt }) => (resolvedAt === undefined) === isOpen),
  )
  const content = `<h1>${text.title}</h1><p class="verdict verdict-${tone}">${summary}</p>
${notesOf(text.notes, open ?? [])}
<section class="card card-flush"><table class="healths"><caption class="visually-hidden">${text.models}</caption>
<thead class="visually-hidden"><tr><th scope="col">${text.model}</th><th scope="col">${text.state}</th></tr></thead>
<tbody>${models.join("\n")}</tbody></table></section>
<p class="status-note">${text.note}</p>
<section class="coming"><h2>${text.coming}</h2>${coming.length === 0 ? `<p>${text.nothing}</p>` : `<ul>${coming.join("")}</ul>`}</section>
${notesOf(text.past, over ?? [])}`
  return framed({
    language,
    title: text.title,
    description: text.description,
    path: "/status",
    kind: "status",
    content,
    supportContact,
  })
}

interface PriceWords {
  readonly name: string
  readonly when: string
  readonly input: string
  readonly output: string
}

const words = {
  id: {
    title: "Status layanan",
    description: "Model mana yang menjawab saat ini, dan harga mana yang akan berubah.",
    allWell: "Semua model menjawab.",
    someNot: (bad: number, all: number) =>
      bad === all ? "Semua model sedang terganggu." : `${bad} dari ${all} model sedang terganggu. Yang lain menjawab.`,
    notReady: "Loket sedang tidak dapat menerima panggilan. Kami sedang menanganinya.",
    notes: "Yang sedang kami tangani",
    past: "Yang selesai dalam tujuh hari terakhir",
    open: "Sedang ditangani.",
    resolved: "Selesai.",
    since: (when: string) => `Sejak ${when}.`,
    updated: (when: string) => `Diperbarui ${when}.`,
    over: (when: string) => `Selesai ${when}.`,
    health: { well: "Menjawab", troubled: "Terganggu", away: "Tidak menjawab" },
    models: "Keadaan setiap model",
    model: "Model",
    state: "Keadaan",
    note: "Menurut panggilan dalam sepuluh menit terakhir. Panggilan yang gagal tidak dibayar.",
    coming: "Yang akan berubah",
    nothing: "Tidak ada perubahan harga dan tidak ada model yang akan berhenti.",
    price: ({ name, when, input, output }: PriceWords) =>
      `${name}: harga baru mulai ${when}. Per satu juta token: masukan ${input}, keluaran ${output}.`,
    retires: (id: string, target: string, when: string) =>
      `${id} sudah digantikan ${target}; nama lama masih dijawab sampai ${when}.`,
  },
  en: {
    title: "Service status",
    description: "Which models answer now, and which prices are going to change.",
    allWell: "All models answer.",
    someNot: (bad: number, all: number) =>
      bad === all ? "All models are in trouble." : `${bad} of ${all} models are in trouble. The others answer.`,
    notReady: "Loket cannot take calls at the moment. We are working on it.",
    notes: "What we are working on",
    past: "What was resolved in the last seven days",
    open: "Being worked on.",
    resolved: "Resolved.",
    since: (when: string) => `Since ${when}.`,
    updated: (when: string) => `Updated ${when}.`,
    over: (when: string) => `Over ${when}.`,
    health: { well: "Answers", troubled: "In trouble", away: "Does not answer" },
    models: "The state of each model",
    model: "Model",
    state: "State",
    note: "By the calls of the last ten minutes. Calls that fail are free.",
    coming: "What is going to change",
    nothing: "No price is going to change, and no model retires.",
    price: ({ name, when, input, output }: PriceWords) =>
      `${name}: a new price from ${when}. Per million tokens: input ${input}, output ${output}.`,
    retires: (id: string, target: string, when: string) =>
      `${id} has been replaced by ${target}; the old name is answered until ${when}.`,
  },
} as const
