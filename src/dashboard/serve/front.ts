/**
 * `/`: what a visitor sees first, before any script: what this is, what each model costs, and a call to copy. The calculator is a
 * form that works by itself; `calculator.ts` spares its round trip. Prices are those that `/models` tells.
 */
import { Elysia } from "elysia"
import { microToJson } from "../../../actors/money/micro.ts"
import type { Offer } from "../../catalogue/model.ts"
import { cookieToken } from "../../http/dashboard/session.ts"
import { edge } from "../../http/edge.ts"
import { formatRupiah } from "../i18n/figures.ts"
import { costOf, MONTH_DAYS, perMillion } from "../pages/models/choose.ts"
import { escaped, framed } from "./frame.ts"
import { assets, BASE, KeptPage, type Language, languageOf, once, onceASecond, respond } from "./kept.ts"

export interface Front {
  readonly offers: () => readonly Offer[]
  /** Where people reach the gateway; undefined for what they asked at. */
  readonly publicUrl: string | undefined
  readonly supportContact: string | undefined
  /** Given to who proves an address; undefined where nothing is. */
  readonly trialMicro: bigint | undefined
}

const VARY = "Accept-Language, Accept-Encoding, Cookie"

export const frontController = (front: Front) => {
  const page = new KeptPage()
  const look = onceASecond(() => {
    const models = front.offers().map(priced)
    return { models, of: JSON.stringify(models) }
  })
  return new Elysia({ name: "front" })
    .use(edge)
    .get("/", async ({ request }) => {
      const { origin, searchParams } = new URL(request.url)
      const language = languageOf(searchParams.get("lang"), request.headers.get("accept-language") ?? "")
      const signedIn = cookieToken(request) !== undefined
      const base = front.publicUrl?.replace(/\/$/, "") ?? origin
      const { models, of } = await look()
      const asked = useOf(searchParams, language)
      const make = (use: Use, address: string) =>
        frontPage({ ...front, models, use, language, signedIn, base: address })
      if (asked !== undefined) return once(request, await make(asked, escaped(base)), language, VARY)
      return await page.answer(request, {
        language,
        variant: signedIn ? "signed in" : "",
        of,
        base: escaped(base),
        vary: VARY,
        make: () => make(USUAL, BASE),
      })
    })
    .get("/favicon.ico", async ({ request }) => {
      const { addressOf, files } = await assets()
      const icon = files.get(addressOf("icon.svg").split("/").at(-1) ?? "")
      if (icon === undefined) throw new Error("the bundle has no icon")
      return respond(request, icon, { "Cache-Control": "public, max-age=86400" })
    })
    .get("/robots.txt", () => new Response(ROBOTS, { headers: { "Cache-Control": "public, max-age=86400" } }))
}

/** Of what is for anybody, all but what is counted or kept for a person. */
const ROBOTS = `User-agent: *
Disallow: /dashboard
Disallow: /v1/
Disallow: /simulated-pay/
Allow: /
`

interface Priced {
  readonly id: string
  readonly name: string
  readonly maker: string
  readonly contextWindow: number | null
  readonly vision: boolean
  readonly chats: boolean
  readonly input_micro: number
  readonly output_micro: number
  readonly cache_read_micro: number
  readonly cache_write_micro: number
}

const priced = ({ model, price: { rates } }: Offer): Priced => ({
  id: model.id,
  name: model.displayName,
  maker: model.provider,
  contextWindow: model.contextWindow,
  vision: model.supportsVision,
  chats: model.endpoints.has("chat"),
  input_micro: microToJson(rates.input),
  output_micro: microToJson(rates.output),
  cache_read_micro: microToJson(rates.cacheRead),
  cache_write_micro: microToJson(rates.cacheWrite),
})

/** Tokens of a call, and calls a day. */
type Use = Readonly<Record<(typeof uses)[number], number>>
const uses = ["input", "output", "calls"] as const
const USUAL: Use = { input: 2_000, output: 500, calls: 100 }

/** A whole number of at most nine digits, with the marks between thousands of the page's language: a regular expression for the browser too. */
const WHOLE = {
  id: String.raw`\d{1,9}|\d{1,3}(?:\.\d{3}){1,2}`,
  en: String.raw`\d{1,9}|\d{1,3}(?:,\d{3}){1,2}`,
} as const satisfies Record<Language, string>

/** What a form asked for; undefined where it asked for nothing, or for what is no number of the calculator's. */
function useOf(query: URLSearchParams, language: Language): Use | undefined {
  const whole = new RegExp(`^(?:${WHOLE[language]})$`)
  const [input, output, calls] = uses.map((name) => {
    const text = query.get(name)?.trim() ?? ""
    return whole.test(text) ? Number(text.replaceAll(/\D/g, "")) : undefined
  })
  return input === undefined || output === undefined || calls === undefined ? undefined : { input, output, calls }
}

interface Shown extends Pick<Front, "supportContact" | "trialMicro"> {
  readonly models: readonly Priced[]
  readonly use: Use
  readonly language: Language
  readonly signedIn: boolean
  readonly base: string
}

function frontPage({ models, use, language, signedIn, base, supportContact, trialMicro }: Shown): Promise<string> {
  const text = words[language]
  const count = models.length
  // A first call is a cheap one.
  const first = models.filter(({ chats }) => chats).toSorted((a, b) => a.output_micro - b.output_micro)[0]
  const cheapest = models.map((model) => model.input_micro).toSorted((a, b) => a - b)[0]
  const notes = [
    ...(cheapest === undefined ? [] : [text.from(formatRupiah(perMillion(cheapest), language))]),
    ...(trialMicro === undefined ? [] : [text.trial(formatRupiah(trialMicro, language))]),
  ]
  const points = text.points.map(([title, body]) => `<li><h2>${title}</h2><p>${body}</p></li>`)
  const steps = text.steps.map(([title, body]) => `<li><h3>${title}</h3><p>${body}</p></li>`)
  const content = `<section class="hero"><div><h1>${text.title}</h1><p class="hero-lead">${text.lead(count)}</p>
<p class="hero-actions"><a class="button button-primary" href="${signedIn ? "/dashboard" : `/dashboard/sign-up?lang=${language}`}">${signedIn ? text.dashboard : text.start}</a>
<a class="button button-secondary" href="#models">${text.toPrices}</a></p>
${notes.length === 0 ? "" : `<p class="hero-note">${notes.join(" ")}</p>`}</div>
${first === undefined ? "" : callExample(base, first, text)}</section>
${count === 0 ? `<p class="card">${text.noModels}</p>` : priceTable(models, use, language)}
<ul class="points">${points.join("")}</ul>
<section class="steps"><h2>${text.stepsTitle}</h2><ol>${steps.join("")}</ol></section>`
  return framed({
    language,
    title: text.title,
    description: text.lead(count),
    path: "/",
    kind: "front",
    content,
    signedIn,
    base,
    supportContact,
    script: "calculator.js",
  })
}

/** A call that works as it stands, with a key in its variable. */
const exampleCall = (base: string, model: string): string =>
  `curl ${base}/v1/chat/completions \\
  -H "Authorization: Bearer $LOKET_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '${JSON.stringify({ model, messages: [{ role: "user", content: "Halo, Loket!" }] }).replaceAll("'", String.raw`'\''`)}'`

function callExample(base: string, { id }: Priced, text: Words): string {
  // The base is HTML already.
  const call = escaped(exampleCall("\0", id)).replace("\0", `<span data-base>${base}</span>`)
  return `<figure class="example" data-copy="${text.copy}" data-copied="${text.copied}"><figcaption>${text.example}</figcaption><pre><code>${call}</code></pre>
<p>${text.openPrices} <code>curl <span data-base>${base}</span>/models</code></p></figure>`
}

function priceTable(models: readonly Priced[], use: Use, language: Language): string {
  const text = words[language]
  const number = new Intl.NumberFormat(language === "id" ? "id-ID" : "en-US")
  const each = (micro: number) => formatRupiah(perMillion(micro), language)
  const rows = models.map((model) => {
    const inputs = { inputTokens: use.input, cachedTokens: 0, outputTokens: use.output }
    const month = costOf(model, inputs) * BigInt(use.calls) * MONTH_DAYS
    const about = [
      model.maker,
      ...(model.contextWindow === null ? [] : [text.context(number.format(model.contextWindow))]),
      ...(model.vision ? [text.vision] : []),
    ]
    return `<tr><th scope="row">${escaped(model.name)} <code>${escaped(model.id)}</code><span>${about.map(escaped).join(" · ")}</span></th>
<td data-label="${text.input}">${each(model.input_micro)}</td><td data-label="${text.output}">${each(model.output_micro)}</td>
<td data-label="${text.month}" data-rates="${model.input_micro} ${model.output_micro}">${formatRupiah(month, language, "whole")}</td></tr>`
  })
  const fields = uses.map(
    (name) => `<label class="field"><span>${text.fields[name]}</span><span class="input">
<input inputmode="numeric" autocomplete="off" name="${name}" value="${use[name]}" pattern="${WHOLE[language]}" title="${text.whole}" required></span></label>`,
  )
  return `<section class="prices" id="models" aria-labelledby="prices-title"><h2 id="prices-title">${text.pricesTitle}</h2><p>${text.pricesLead}</p>
<form class="card" action="/#models" method="get" data-language="${language}"><input type="hidden" name="lang" value="${language}">${fields.join("")}
<button class="button button-secondary" type="submit">${text.calculate}</button></form>
<div class="card card-flush"><table><caption class="visually-hidden">${text.pricesTitle}</caption>
<thead><tr><th scope="col">${text.model}</th><th scope="col">${text.input}</th><th scope="col">${text.output}</th><th scope="col">${text.month}</th></tr></thead>
<tbody>${rows.join("\n")}</tbody></table></div></section>`
}

const words = {
  id: {
    title: "Satu kunci untuk semua model AI, dibayar dengan rupiah",
    lead: (count: number) =>
      `Loket meneruskan panggilan Anda ke ${count} model dari satu alamat. Isi saldo lewat QRIS, bayar hanya token yang terpakai, dan lihat biaya setiap panggilan sampai angka terakhir.`,
    start: "Buat akun",
    dashboard: "Buka dasbor",
    toPrices: "Lihat harga",
    from: (price: string) => `Mulai ${price} untuk satu juta token masukan.`,
    trial: (amount: string) => `Akun baru mendapat kredit percobaan ${amount}, setelah alamat e-mailnya dikonfirmasi.`,
    example: "Panggilan pertama Anda",
    copy: "Salin",
    copied: "Tersalin",
    openPrices: "Tanpa kunci, harga terbuka untuk siapa saja:",
    points: [
      [
        "Tanpa langganan",
        "Isi saldo mulai Rp&nbsp;10.000 lewat QRIS. Tidak ada biaya bulanan dan tidak ada tagihan menyusul.",
      ],
      ["Yang gagal tidak dibayar", "Panggilan yang tidak dijawab model tidak mengurangi saldo Anda."],
      ["SDK yang sudah Anda pakai", "Format OpenAI dan Anthropic. Ganti alamat dan kunci; kode Anda tetap sama."],
      ["Anggaran yang terjaga", "Setiap kunci bisa punya batas belanja sendiri, dan saldo tidak pernah minus."],
    ],
    noModels: "Belum ada model yang dijual di sini.",
    pricesTitle: "Harga setiap model",
    pricesLead: "Per satu juta token, dalam rupiah. Ubah angka di bawah untuk melihat perkiraan biaya Anda sendiri.",
    fields: {
      input: "Token masukan per panggilan",
      output: "Token keluaran per panggilan",
      calls: "Panggilan per hari",
    },
    whole: "Bilangan bulat sampai 999.999.999, seperti 20.000.",
    calculate: "Hitung",
    model: "Model",
    input: "Masukan / 1 juta",
    output: "Keluaran / 1 juta",
    month: "Perkiraan 30 hari",
    context: (tokens: string) => `konteks ${tokens} token`,
    vision: "membaca gambar",
    stepsTitle: "Mulai dalam tiga langkah",
    steps: [
      ["Daftar", "Cukup alamat e-mail dan kata sandi."],
      ["Isi saldo", "Pindai QRIS dengan aplikasi bank atau dompet digital Anda."],
      ["Panggil", "Buat kunci, salin contoh untuk klien Anda, dan kirim panggilan pertama."],
    ],
  },
  en: {
    title: "One key for every AI model, paid in rupiah",
    lead: (count: number) =>
      `Loket takes your calls to ${count} models from one address. Top up by QRIS, pay only for the tokens you use, and see what each call cost, to the last digit.`,
    start: "Create an account",
    dashboard: "Open the dashboard",
    toPrices: "See the prices",
    from: (price: string) => `From ${price} for a million tokens of input.`,
    trial: (amount: string) => `New accounts get ${amount} of trial credit once their e-mail address is proved.`,
    example: "Your first call",
    copy: "Copy",
    copied: "Copied",
    openPrices: "Prices are open to anybody, without a key:",
    points: [
      ["No subscription", "Top up from Rp&nbsp;10,000 by QRIS. There is no monthly fee, and no bill comes later."],
      ["Failed calls are free", "A call that the model does not answer takes nothing from your balance."],
      ["The SDKs you use already", "The formats of OpenAI and Anthropic. Change address and key; your code stays."],
      ["Budgets that hold", "Each key can have a spending limit of its own, and the balance never goes below zero."],
    ],
    noModels: "No model is for sale here yet.",
    pricesTitle: "What each model costs",
    pricesLead: "Per million tokens, in rupiah. Change the numbers below to see what yours would come to.",
    fields: { input: "Input tokens a call", output: "Output tokens a call", calls: "Calls a day" },
    whole: "A whole number up to 999,999,999, such as 20,000.",
    calculate: "Calculate",
    model: "Model",
    input: "Input / million",
    output: "Output / million",
    month: "About 30 days",
    context: (tokens: string) => `${tokens} tokens of context`,
    vision: "reads images",
    stepsTitle: "Begin in three steps",
    steps: [
      ["Sign up", "An e-mail address and a password are all it takes."],
      ["Top up", "Scan the QRIS code with your bank's app or your wallet."],
      ["Call", "Make a key, copy the example for your client, and send your first call."],
    ],
  },
} as const
type Words = (typeof words)[Language]
