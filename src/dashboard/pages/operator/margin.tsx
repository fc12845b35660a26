/**
 * The margin of a price before it is saved, in bigint because sums of money are: the same calls as in the last days, at the
 * rates that are typed. And the words of margins and exchange rates.
 */
import { queryOptions, useQuery } from "@tanstack/react-query"
import { api, unwrap } from "../../api/client.ts"
import { aboutQuery } from "../../api/queries.ts"
import { Skeleton } from "../../components/feedback.tsx"
import { Money } from "../../components/values.tsx"
import { useFormat, texts } from "../../i18n/language.tsx"

const mixQuery = (model: string) =>
  queryOptions({
    queryKey: ["operator", "mix", model],
    queryFn: () => unwrap(api.operator.models({ model: encodeURIComponent(model) }).mix.get()),
  })

interface CustomersProps {
  readonly model: string
  /** When they pay something else: those who do so at once are told nothing before. */
  readonly when: "now" | "later" | "retiring"
  /** When a price begins; milliseconds. */
  readonly beginsAt?: number | undefined
}

/** What has not stood for so long is told by no mail; milliseconds. */
const MAILED_AFTER = 10 * 60_000

/** How many used the model lately, and whether they learn of the change before it holds. */
export function PriceCustomers({ model, when, beginsAt }: CustomersProps) {
  const text = useProfitText()
  const format = useFormat()
  const { data: mix } = useQuery(mixQuery(model))
  const { data: about } = useQuery(aboutQuery)
  if (mix === undefined || mix.customers === 0) return null
  const isSoon = beginsAt !== undefined && beginsAt <= Date.now() + MAILED_AFTER
  const mailed = when === "now" ? undefined : text.customersMailed[when === "later" && isSoon ? "soon" : when]
  return (
    <p className={when === "later" ? "operator-hint" : "operator-warning"}>
      {text.customers(format.number(mix.customers), mix.customers === 1, format.number(mix.days))}{" "}
      {text.customersTold[when]} {about?.sends_mail === true && mailed}
    </p>
  )
}

interface PriceMarginProps {
  readonly model: string
  /** Undefined while a rate is no number. */
  readonly rates: Readonly<Record<(typeof rateNames)[number], number>> | undefined
}

export function PriceMargin({ model, rates }: PriceMarginProps) {
  const text = useProfitText()
  const format = useFormat()
  const { data: mix, error } = useQuery(mixQuery(model))
  if (error) return null
  if (mix === undefined) return <Skeleton lines={3} />
  const days = format.number(mix.days)
  if (mix.calls === 0) return <p className="operator-hint">{text.mixNone(days)}</p>
  if (mix.unknown_cost === mix.calls) return <p className="operator-hint">{text.mixUnknown}</p>
  const [was, cost] = [BigInt(mix.revenue_micro), BigInt(mix.cost_micro)]
  const then = rates === undefined ? undefined : revenueAt(mix, rates)
  const title = text.mix(days, format.number(mix.calls))
  return (
    <section aria-label={title}>
      <p className="operator-hint">{title}</p>
      <table className="changes">
        <thead>
          <tr>
            <td />
            <th scope="col">{text.mixColumns.now}</th>
            <th scope="col">{text.mixColumns.next}</th>
          </tr>
        </thead>
        <tbody>
          <Line name={text.revenue} now={was} then={then} />
          <Line name={text.cost} now={cost} then={cost} />
          <Line
            name={text.margin}
            now={was - cost}
            then={then === undefined ? undefined : then - cost}
            of={[was, then]}
          />
        </tbody>
      </table>
      {then !== undefined && then < cost && <p className="operator-warning">{text.mixLoss}</p>}
      {mix.unknown_cost > 0 && <p className="operator-hint">{text.mixPart(format.number(mix.unknown_cost))}</p>}
    </section>
  )
}

interface LineProps {
  readonly name: string
  readonly now: bigint
  readonly then: bigint | undefined
  /** What each is told as a share of. */
  readonly of?: readonly [bigint, bigint | undefined]
}

const Line = ({ name, now, then, of }: LineProps) => (
  <tr>
    <th scope="row">{name}</th>
    <td>
      <Money micro={now} /> <Share amount={now} of={of?.[0]} />
    </td>
    <td>
      {then === undefined ? "–" : <Money micro={then} />} <Share amount={then} of={of?.[1]} />
    </td>
  </tr>
)

function Share({ amount, of }: { readonly amount: bigint | undefined; readonly of: bigint | undefined }) {
  const format = useFormat()
  if (amount === undefined || of === undefined || of === 0n) return null
  return <>({format.percent(Number(amount) / Number(of))})</>
}

export const rateNames = ["input_micro", "output_micro", "cache_read_micro", "cache_write_micro"] as const

/** What calls were made of, in tokens. */
interface Mix {
  readonly input_tokens: number
  readonly output_tokens: number
  readonly cache_read_tokens: number
  readonly cache_write_tokens: number
}

/** What a mix brings at rates of micro-rupiah for one token. */
const revenueAt = (mix: Mix, rates: Readonly<Record<(typeof rateNames)[number], number>>): bigint =>
  BigInt(mix.input_tokens) * BigInt(rates.input_micro) +
  BigInt(mix.output_tokens) * BigInt(rates.output_micro) +
  BigInt(mix.cache_read_tokens) * BigInt(rates.cache_read_micro) +
  BigInt(mix.cache_write_tokens) * BigInt(rates.cache_write_micro)

export const useProfitText = texts({
  id: {
    title: "Laba",
    intro:
      "Pendapatan dari panggilan dikurangi tagihan backend. Biaya dihitung dengan tarif dan kurs yang berlaku saat panggilan dibuka.",
    download: "Unduh CSV",
    revenue: "Pendapatan",
    cost: "Biaya",
    margin: "Laba",
    calls: (count: string, _one: boolean) => `${count} panggilan`,
    estimated: (amount: string) => `${amount} di antaranya perkiraan`,
    unknownNote: (count: string) => `Biaya ${count} catatan tidak diketahui, jadi belum dihitung`,
    unknownShort: (count: string) => `${count} tidak diketahui`,
    ofRevenue: (share: string) => `${share} dari pendapatan`,
    atMost: "paling banyak: sebagian biaya tidak diketahui",
    underCost: "Dijual di bawah biaya",
    underNote: (amount: string) => `panggilan; selisihnya ${amount}`,
    underHint: "Harga model-model ini lebih rendah daripada tagihan backend-nya. Naikkan harga atau ganti backend.",
    division: "Rincian",
    groupBy: "Menurut",
    splitBy: "Dirinci lagi menurut",
    groups: { day: "Hari", model: "Model", member: "Backend", account: "Akun", none: "Tidak dirinci" },
    columns: { calls: "Panggilan", share: "Laba %", short: "Selisih", why: "Sebab", records: "Catatan" },
    loss: "rugi",
    nothing: "Tidak ada panggilan dalam periode ini",
    truncated: "Masih ada baris lain; semuanya ada di CSV.",
    leaks: "Yang bocor",
    leakNames: {
      usage_missing: "Jumlah token tidak terbaca",
      failed: "Panggilan gagal",
      retries: "Percobaan ulang",
      rerouted: "Dialihkan",
      searches: "Pencarian",
      voided: "Tagihan dibatalkan",
    },
    leakHints: {
      usage_missing: "Jawaban sampai, tetapi pelanggan tidak ditagih. Biayanya perkiraan.",
      failed: "Backend sudah mulai menjawab sebelum panggilan gagal; pelanggan tidak ditagih.",
      retries: "Percobaan yang gagal dari panggilan yang kemudian dilanjutkan; tetap ditagih backend.",
      rerouted: "Model pertama gagal, lalu model lain yang menjawab.",
      searches: "Pencarian oleh backend, yang tidak punya harga jual.",
      voided: "Jawaban dihitung backend, tetapi tagihan kepada pelanggan ditarik kembali.",
    },
    absorbedNote: (amount: string) =>
      `Selain itu, ${amount} nilai jual tidak tertagih karena melebihi dana tertahan. Jumlah ini bukan biaya, melainkan pendapatan yang hilang.`,
    rates: "Kurs",
    ratesHint: "Rupiah untuk satu unit mata uang tagihan backend. Tanpa kurs, biayanya tidak diketahui.",
    setRate: "Atur kurs",
    rateTitle: "Atur kurs",
    rateAct: "Simpan kurs",
    rateDone: "Kurs disimpan; berlaku tiga detik lagi.",
    rateNow: "Berlaku tiga detik setelah disimpan. Panggilan yang sudah dibuka tetap memakai kurs lama.",
    currency: "Mata uang",
    currencyWrong: "Isi dengan kode tiga huruf selain IDR, misalnya USD.",
    rupiah: "Rupiah untuk satu unit",
    rupiahWrong: "Isi dengan jumlah rupiah di atas nol.",
    rateColumns: { currency: "Mata uang", rupiah: "Kurs", since: "Sejak", source: "Sumber" },
    sources: { operator: "operator", fetched: "otomatis" },
    missing: "Belum ada",
    noRates: "Belum ada biaya dalam mata uang asing",
    coming: (rupiah: string) => `${rupiah} sebentar lagi`,
    mix: (days: string, calls: string) => `Dicoba pada ${calls} panggilan nyata selama ${days} hari terakhir`,
    mixNone: (days: string) => `Belum ada panggilan dalam ${days} hari terakhir untuk mencoba harga ini.`,
    mixUnknown: "Biaya model ini tidak diketahui, jadi labanya tidak dapat dihitung.",
    mixPart: (count: string) => `Biaya ${count} panggilan tidak diketahui; labanya tidak dapat dihitung dengan tepat.`,
    mixColumns: { now: "Sesungguhnya", next: "Dengan harga ini" },
    customers: (count: string, _one: boolean, days: string) =>
      `${count} pelanggan memakai model ini dalam ${days} hari terakhir.`,
    customersTold: {
      later:
        "Begitu disimpan, mereka melihat harga baru dan pengaruhnya pada pemakaian mereka di Beranda, Pemakaian, dan Model.",
      now: "Harga yang langsung berlaku tidak sempat diberitahukan kepada mereka.",
      retiring: "Panggilan mereka langsung ditagih dengan harga penggantinya, tanpa pemberitahuan sebelumnya.",
    },
    customersMailed: {
      later:
        "Sepuluh menit kemudian mereka juga menerima e-mail; sampai saat itu harga dapat dihapus tanpa ada yang diberi tahu lewat e-mail.",
      soon: "Harga yang berlaku dalam sepuluh menit tidak diberitahukan lewat e-mail.",
      retiring: "Sepuluh menit kemudian mereka menerima e-mail tentang hal ini.",
    },
    mixLoss: "Dengan harga ini model dijual di bawah biayanya.",
  },
  en: {
    title: "Profit",
    intro:
      "What calls brought, less what backends bill. Costs are at the rates and the exchange rate in force when a call was opened.",
    download: "Download CSV",
    revenue: "Revenue",
    cost: "Cost",
    margin: "Margin",
    calls: (count: string, one: boolean) => `${count} ${one ? "call" : "calls"}`,
    estimated: (amount: string) => `${amount} of it estimated`,
    unknownNote: (count: string) =>
      `The cost of ${count} ${count === "1" ? "record" : "records"} is not known, and not counted`,
    unknownShort: (count: string) => `${count} not known`,
    ofRevenue: (share: string) => `${share} of revenue`,
    atMost: "at most: some costs are not known",
    underCost: "Sold under cost",
    underNote: (amount: string) => `of the calls; ${amount} short in all`,
    underHint: "The price of these models is under what their backends bill. Raise the price, or change the backend.",
    division: "Breakdown",
    groupBy: "By",
    splitBy: "And by",
    groups: { day: "Day", model: "Model", member: "Backend", account: "Account", none: "Nothing else" },
    columns: { calls: "Calls", share: "Margin %", short: "Short", why: "Why", records: "Records" },
    loss: "loss",
    nothing: "No calls in this period",
    truncated: "There are more rows; the CSV has all of them.",
    leaks: "What leaked",
    leakNames: {
      usage_missing: "Counts not readable",
      failed: "Failed calls",
      retries: "Retries",
      rerouted: "Rerouted",
      searches: "Searches",
      voided: "Charges taken back",
    },
    leakHints: {
      usage_missing: "The answer arrived, and the customer was not charged. The cost is an estimate.",
      failed: "The backend had begun to answer before the call failed; the customer was not charged.",
      retries: "Failed tries of calls that went on; the backend bills them all the same.",
      rerouted: "The first model failed, and another one answered.",
      searches: "Run by backends, and without a price of their own.",
      voided: "The backend counted the answer, and the customer's charge was taken back.",
    },
    absorbedNote: (amount: string) =>
      `Beside it, ${amount} at sale prices was not charged, because it was over what was held. It is no cost, but revenue that was lost.`,
    rates: "Exchange rates",
    ratesHint: "Rupiah for one unit of a currency that backends bill in. Without one the cost is not known.",
    setRate: "Set a rate",
    rateTitle: "Set an exchange rate",
    rateAct: "Save rate",
    rateDone: "The rate is saved; it is in force in three seconds.",
    rateNow: "In force three seconds after it is saved. Calls that were opened before keep the old one.",
    currency: "Currency",
    currencyWrong: "Enter a code of three letters other than IDR, such as USD.",
    rupiah: "Rupiah for one unit",
    rupiahWrong: "Enter an amount of rupiah above zero.",
    rateColumns: { currency: "Currency", rupiah: "Rate", since: "Since", source: "Source" },
    sources: { operator: "operator", fetched: "fetched" },
    missing: "None yet",
    noRates: "No costs in a foreign currency yet",
    coming: (rupiah: string) => `${rupiah} in a moment`,
    mix: (days: string, calls: string) =>
      `Tried on ${calls} real ${calls === "1" ? "call" : "calls"} of the last ${days} days`,
    mixNone: (days: string) => `There was no call in the last ${days} days to try this price on.`,
    mixUnknown: "What this model costs is not known, so there is no margin to show.",
    mixPart: (count: string) =>
      `The cost of ${count} ${count === "1" ? "call" : "calls"} is not known; the margin cannot be told exactly.`,
    mixColumns: { now: "As it was", next: "At this price" },
    customers: (count: string, one: boolean, days: string) =>
      `${count} ${one ? "customer" : "customers"} used this model in the last ${days} days.`,
    customersTold: {
      later:
        "As soon as it is saved, they see the new price, and what it makes of their own usage, on Home, Usage and Models.",
      now: "They are not told before of a price that begins at once.",
      retiring: "Their calls pay the price of its successor at once, without notice.",
    },
    customersMailed: {
      later: "Ten minutes later they have it by mail too; until then it can be deleted without a mail to anybody.",
      soon: "A price that begins within ten minutes is not told by mail.",
      retiring: "Ten minutes later they are told of it by mail.",
    },
    mixLoss: "At this price the model is sold under its cost.",
  },
})
