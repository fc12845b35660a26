/** All models as operators see them, with their prices, and the words of the pages of models. */
import { queryOptions } from "@tanstack/react-query"
import { api, unwrap } from "../../api/client.ts"
import { untilNext } from "../../api/queries.ts"
import { Tag, type Tone } from "../../components/values.tsx"
import { useFormat, texts } from "../../i18n/language.tsx"

export const modelsQuery = queryOptions({
  queryKey: ["operator", "models"],
  queryFn: async () => (await unwrap(api.operator.models.get())).data,
  // Refetched when the next price begins.
  refetchInterval: ({ state: { data } }) =>
    untilNext(
      data?.flatMap(({ prices }) => prices.flatMap(({ state, effective_at: at }) => (state === "coming" ? at : []))) ??
        [],
    ),
})
export type OperatorModel = Awaited<ReturnType<NonNullable<typeof modelsQuery.queryFn>>>[number]
export type Price = OperatorModel["prices"][number]

/** Model ids have slashes, which are `%2F` in an address. */
export const addressOf = (model: string): string => `/operator/models/${encodeURIComponent(model)}`

/** Whether the router's parameter is this model. The router leaves reserved characters encoded. */
export const isMeant = (model: string, parameter: string): boolean => decodeURI(encodeURIComponent(model)) === parameter

export const currentPrice = ({ prices }: OperatorModel): Price | undefined =>
  prices.find(({ state }) => state === "current")

/** The next one first. */
export const comingPrices = ({ prices }: OperatorModel): readonly Price[] =>
  prices.filter(({ state }) => state === "coming")

const TONES: Readonly<Record<OperatorModel["status"], Tone>> = { on_sale: "good", retiring: "warn", retired: "neutral" }

/** Whether a model is on sale, as tags. */
export function ModelTags({ model }: { readonly model: OperatorModel }) {
  const text = useModelsText()
  const format = useFormat()
  const coming = comingPrices(model).length
  return (
    <span className="operator-tags">
      <Tag tone={TONES[model.status]}>{text.states[model.status]}</Tag>
      {coming > 0 && <Tag tone="accent">{text.coming(format.number(coming))}</Tag>}
      {!model.configured && <Tag tone="bad">{text.unconfigured}</Tag>}
    </span>
  )
}

export const useModelsText = texts({
  id: {
    title: "Model dan harga",
    intro: "Semua model, juga yang ditarik. Harga dalam rupiah per satu juta token.",
    search: "Saring model",
    searchHint: "Nama, ID, kelas, atau penyedia",
    state: "Status",
    any: "Semua",
    states: { on_sale: "Dijual", retiring: "Akan ditarik", retired: "Ditarik" },
    unconfigured: "Penyedia tanpa kunci",
    coming: (count: string) => `${count} harga menunggu`,
    none: "Tidak ada model yang cocok",
    noneHint: "Ubah pencarian atau lepaskan saringan.",
    shown: (count: string, all: string) => `${count} dari ${all} model`,
    columns: {
      model: "Model",
      state: "Status",
      tier: "Kelas",
      upstream: "Backend",
      input: "Masukan",
      output: "Keluaran",
      cap: "Serentak",
    },
  },
  en: {
    title: "Models and prices",
    intro: "Every model, retired ones too. Prices are rupiah per million tokens.",
    search: "Filter models",
    searchHint: "Name, ID, tier or provider",
    state: "State",
    any: "All",
    states: { on_sale: "On sale", retiring: "Retiring", retired: "Retired" },
    unconfigured: "Provider without key",
    coming: (count: string) => `${count} to come`,
    none: "No model matches",
    noneHint: "Change the search or take filters away.",
    shown: (count: string, all: string) => `${count} of ${all} models`,
    columns: {
      model: "Model",
      state: "State",
      tier: "Tier",
      upstream: "Backend",
      input: "Input",
      output: "Output",
      cap: "Concurrent",
    },
  },
})

export const useModelText = texts({
  id: {
    title: "Model",
    unknown: "Model ini tidak ada",
    unknownHint: "Mungkin ID-nya salah ketik.",
    toModels: "Ke semua model",
    modelId: "ID model",
    audit: "Log audit model ini",
    review: "Tinjau perubahan",
    reviewed: "Belum ada yang diubah. Beginilah jadinya setelah disimpan:",
    save: "Simpan",
    prices: "Harga",
    pricesHint: "Rupiah per satu juta token. Panggilan memakai harga yang berlaku ketika diterima.",
    schedule: "Jadwalkan harga",
    priceColumns: { from: "Berlaku sejak", state: "Status", action: "Tindakan" },
    priceStates: { past: "Lewat", current: "Berlaku", coming: "Menunggu" },
    delete: "Hapus",
    deleteTitle: (time: string) => `Hapus harga yang berlaku sejak ${time}?`,
    deleteText:
      "Harga ini tidak akan berlaku; yang berlaku sebelumnya diteruskan. Panggilan yang sudah diterima tidak berubah.",
    deleteLate: "Harga dapat dihapus sampai tiga puluh detik sebelum berlaku; sesudah itu, jadwalkan harga lain.",
    deleteAct: "Hapus harga",
    deleteDone: "Harga dihapus.",
    priceTitle: "Jadwalkan harga",
    rateWrong: "Isi dengan bilangan bulat rupiah, 0 atau lebih.",
    when: "Berlaku",
    whens: { now: "Segera", later: "Pada waktu tertentu" },
    nowHint: "Tiga detik setelah disimpan, sehingga semua proses mengetahuinya lebih dulu.",
    time: "Mulai",
    timeHint: (zone: string) => `Menurut zona waktu akun Anda, ${zone}. Paling cepat tiga detik dari sekarang.`,
    timeWrong: "Pilih waktu yang belum lewat.",
    priceDone: "Harga dijadwalkan.",
    jump: "Perubahan besar",
    jumpText: (rate: string, from: string, to: string, times: string) =>
      `${rate} dari ${from} menjadi ${to} (${times})`,
    jumpTimes: (factor: string) => `${factor} kali`,
    jumpNothing: "dari atau ke nol",
    jumpConfirm: "Ya, perubahan sebesar ini memang dimaksud.",
    settings: "Pengaturan",
    edit: "Ubah",
    editTitle: "Ubah model",
    editDone: "Model diubah.",
    nameWrong: "Wajib diisi: satu baris, paling banyak 100 karakter.",
    capHint: "Paling banyak panggilan sekaligus ke model ini, di seluruh gateway.",
    capWrong: "Isi dengan bilangan bulat, 1 atau lebih.",
    fallbackHint:
      "ID model, dipisahkan koma, dicoba berurutan ketika model ini sibuk atau permintaan terlalu panjang. Kosongkan untuk tanpa cadangan.",
    noFallback: "tanpa cadangan",
    passHint:
      "Nama kolom permintaan, dipisahkan koma, yang diteruskan ke model ini di luar kolom formatnya. Yang lain dibuang.",
    noPass: "tidak ada; hanya kolom formatnya",
    upstream: "Backend",
    endpoints: "Format yang dilayani",
    context: "Konteks",
    maxOutput: "Keluaran terbanyak",
    edited: "Diatur di sini",
    editedNone: "tidak ada; semua mengikuti berkas katalog",
    unpublished: "tidak dipublikasikan",
    tokens: (count: string) => `${count} token`,
    retirement: "Penarikan",
    retireText:
      "Model yang ditarik dilayani sebagai model lain, dengan harga model itu, sampai waktu yang Anda tentukan; sesudahnya ID ini tidak dikenal lagi.",
    retire: "Tarik model",
    retireTitle: (model: string) => `Tarik ${model}?`,
    retireAct: "Tarik model",
    retireDone: "Model ditarik.",
    target: "Dilayani sebagai",
    targetHint: "Hanya model yang melayani semua format model ini.",
    noTarget: "Tidak ada model lain yang melayani semua format model ini.",
    targetChoose: "Pilih model…",
    targetUnchosen: "Pilih model yang menggantikan.",
    retirePrices: "Yang dibayar pelanggan untuk ID ini",
    until: "Sampai",
    retired: (target: string, time: string) => `Dilayani sebagai ${target} sampai ${time}.`,
    gone: (target: string, time: string) => `Dilayani sebagai ${target} sampai ${time}; sekarang ID ini tidak dikenal.`,
    restore: "Jual kembali",
    restoreTitle: (model: string) => `Jual ${model} kembali?`,
    restoreText: "Model ini langsung dijual lagi dengan harganya sendiri, dan muncul lagi di katalog pelanggan.",
    restoreDone: "Model dijual kembali.",
  },
  en: {
    title: "Model",
    unknown: "There is no such model",
    unknownHint: "Its ID may be misspelt.",
    toModels: "To all models",
    modelId: "model ID",
    audit: "Audit log of this model",
    review: "Review changes",
    reviewed: "Nothing has changed yet. This is how it will be once saved:",
    save: "Save",
    prices: "Prices",
    pricesHint: "Rupiah per million tokens. A call pays the price that was in force when it was admitted.",
    schedule: "Schedule price",
    priceColumns: { from: "In force from", state: "State", action: "Action" },
    priceStates: { past: "Past", current: "Current", coming: "Coming" },
    delete: "Delete",
    deleteTitle: (time: string) => `Delete the price from ${time}?`,
    deleteText: "This price will never be in force; the one before it goes on. Calls already admitted do not change.",
    deleteLate: "A price can be deleted until thirty seconds before it begins; after that, schedule another.",
    deleteAct: "Delete price",
    deleteDone: "The price is deleted.",
    priceTitle: "Schedule price",
    rateWrong: "Enter a whole number of rupiah, 0 or more.",
    when: "In force",
    whens: { now: "As soon as possible", later: "At a time" },
    nowHint: "Three seconds after it is saved, so that every process knows it before.",
    time: "From",
    timeHint: (zone: string) => `In your account's time zone, ${zone}. Three seconds from now at the soonest.`,
    timeWrong: "Choose a time that is still to come.",
    priceDone: "The price is scheduled.",
    jump: "Large change",
    jumpText: (rate: string, from: string, to: string, times: string) => `${rate} from ${from} to ${to} (${times})`,
    jumpTimes: (factor: string) => `${factor} times`,
    jumpNothing: "from or to nothing",
    jumpConfirm: "Yes, a change this large is meant.",
    settings: "Settings",
    edit: "Edit",
    editTitle: "Edit model",
    editDone: "The model is changed.",
    nameWrong: "Required: one line, at most 100 characters.",
    capHint: "The most calls at once to this model, in the whole gateway.",
    capWrong: "Enter a whole number, 1 or more.",
    fallbackHint:
      "Model IDs, separated by commas, tried in turn when this model is busy or a request is too long for it. Leave empty for none.",
    noFallback: "none",
    passHint:
      "Names of request fields, separated by commas, that travel to this model beside those of its format. Others are left out.",
    noPass: "none; only those of its format",
    upstream: "Backend",
    endpoints: "Served in",
    context: "Context",
    maxOutput: "Largest output",
    edited: "Set here",
    editedNone: "nothing; all follows the catalogue file",
    unpublished: "not published",
    tokens: (count: string) => `${count} tokens`,
    retirement: "Retirement",
    retireText:
      "A retired model is served as another, at that model's price, until the time you choose; after that its ID is unknown.",
    retire: "Retire model",
    retireTitle: (model: string) => `Retire ${model}?`,
    retireAct: "Retire model",
    retireDone: "The model is retired.",
    target: "Served as",
    targetHint: "Only models that are served in every format of this one.",
    noTarget: "No other model is served in every format of this one.",
    targetChoose: "Choose a model…",
    targetUnchosen: "Choose the model that takes its place.",
    retirePrices: "What customers pay for this ID",
    until: "Until",
    retired: (target: string, time: string) => `Served as ${target} until ${time}.`,
    gone: (target: string, time: string) => `Was served as ${target} until ${time}; now the ID is unknown.`,
    restore: "Sell again",
    restoreTitle: (model: string) => `Sell ${model} again?`,
    restoreText: "The model is on sale at once, at its own price, and is in the customers' catalogue again.",
    restoreDone: "The model is on sale again.",
  },
})
