/** How long a key works, and what it may be used for and from where; nothing of a key without bounds. */
import { CalendarClock } from "lucide-react"
import { formatName } from "../../api/call-formats.ts"
import type { ApiKey } from "../../api/queries.ts"
import { useFormat } from "../../i18n/format.ts"
import { texts } from "../../i18n/language.tsx"

export function Bindings({ apiKey }: { readonly apiKey: ApiKey }) {
  const text = useBindingText()
  const format = useFormat()
  const { expires_at: expiresAt, models, endpoints, networks, origins, max_rate_micro: rate, status } = apiKey
  const bounds = [
    [text.onlyModels, models?.join(", ")],
    [text.onlyEndpoints, endpoints?.map(formatName).join(", ")],
    [text.onlyNetworks, networks?.join(", ")],
    [text.fromPages, origins?.join(", ")],
    // The rate of one token in micro-rupiah is the price of a million tokens in rupiah.
    [text.most, rate === null ? undefined : text.mostOf(format.rupiah(BigInt(rate) * 1_000_000n))],
  ].filter((bound): bound is [string, string] => bound[1] !== undefined)
  return (
    <>
      {expiresAt !== null && (
        <p className={status === "expired" ? "key-notice" : "key-quiet key-expiry"}>
          <CalendarClock aria-hidden="true" />
          <span>{(status === "expired" ? text.ended : text.until)(format.dateTime(expiresAt))}</span>
        </p>
      )}
      {bounds.length > 0 && (
        <dl className="key-bounds" aria-label={text.facts}>
          {bounds.map(([name, what]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
      )}
    </>
  )
}

export const useBindingText = texts({
  id: {
    title: "Masa berlaku dan pembatasan",
    expiry: "Berlaku sampai",
    expiryHint: (zone: string) =>
      `Sesudah itu panggilannya ditolak. Panggilan yang sedang berjalan diteruskan. Waktu ${zone}.`,
    expiryWrong: "Tulis waktu yang akan datang.",
    expiryOf: "Pilihan masa berlaku",
    days: (count: string) => `${count} hari`,
    never: "Tanpa akhir",
    models: "Model",
    modelsWhich: { all: "Semua", some: "Yang dipilih saja" },
    modelsHint: "Panggilan ke model lain ditolak, dan model pengganti hanya dari daftar ini.",
    modelsWrong: "Pilih satu sampai 64 model.",
    gone: (model: string) => `${model} (tidak ada lagi di katalog)`,
    endpoints: "Format panggilan",
    endpointsWrong: "Pilih sedikitnya satu format.",
    networks: "Jaringan",
    networksHint: "Satu alamat atau jaringan (CIDR) per baris, paling banyak 32. Kosong: dari mana saja.",
    networksWrong: (bad: string) =>
      bad === ""
        ? "Paling banyak 32 baris."
        : `${bad} bukan alamat atau jaringan. Contoh: 203.0.113.0/24 atau 2001:db8::/32.`,
    origins: "Halaman web",
    originsHint:
      "Asal halaman yang boleh memanggil dari peramban, satu per baris, paling banyak 16, misalnya https://app.example.com. Kosong: tidak ada. Kunci di halaman terlihat oleh pengunjungnya.",
    originsWrong: (bad: string) =>
      bad === ""
        ? "Paling banyak 16 baris."
        : `${bad} bukan asal halaman. Contoh: https://app.example.com atau http://localhost:5173, tanpa path.`,
    rate: "Tarif tertinggi",
    rateHint: "Model yang salah satu dari empat tarifnya lebih tinggi ditolak.",
    rateUnit: "/ 1 juta token",
    rateWrong: "Tulis bilangan bulat rupiah mulai 0.",
    expired: "Kedaluwarsa",
    facts: "Masa berlaku dan pembatasan",
    until: (time: string) => `Berlaku sampai ${time}`,
    ended: (time: string) => `Berakhir ${time}. Ubah kunci ini untuk memperpanjangnya.`,
    onlyModels: "Hanya model",
    onlyEndpoints: "Hanya format",
    onlyNetworks: "Hanya dari",
    fromPages: "Halaman web",
    most: "Tarif paling tinggi",
    mostOf: (price: string) => `${price} per 1 juta token`,
  },
  en: {
    title: "Expiry and what it is bound to",
    expiry: "Works until",
    expiryHint: (zone: string) => `After that its calls are refused. Calls under way go on. Time in ${zone}.`,
    expiryWrong: "Enter a time that is to come.",
    expiryOf: "Choices for expiry",
    days: (count: string) => `${count} days`,
    never: "No end",
    models: "Models",
    modelsWhich: { all: "All", some: "Only those chosen" },
    modelsHint: "Calls to other models are refused, and fallback models come from this list alone.",
    modelsWrong: "Choose from 1 to 64 models.",
    gone: (model: string) => `${model} (no longer in the catalogue)`,
    endpoints: "Call formats",
    endpointsWrong: "Choose at least one format.",
    networks: "Networks",
    networksHint: "One address or network (CIDR) a line, 32 at most. Empty: from anywhere.",
    networksWrong: (bad: string) =>
      bad === "" ? "32 lines at most." : `${bad} is no address or network. Try 203.0.113.0/24 or 2001:db8::/32.`,
    origins: "Web pages",
    originsHint:
      "Origins of pages that may call from a browser, one a line, 16 at most, such as https://app.example.com. Empty: none. A page's visitors can see the key in it.",
    originsWrong: (bad: string) =>
      bad === ""
        ? "16 lines at most."
        : `${bad} is no origin of a page. Try https://app.example.com or http://localhost:5173, without a path.`,
    rate: "Highest rate",
    rateHint: "Models any of whose four rates is higher are refused.",
    rateUnit: "/ 1 million tokens",
    rateWrong: "Enter a whole number of rupiah from 0.",
    expired: "Expired",
    facts: "Expiry and what it is bound to",
    until: (time: string) => `Works until ${time}`,
    ended: (time: string) => `Ended ${time}. Edit this key to give it more time.`,
    onlyModels: "Only models",
    onlyEndpoints: "Only formats",
    onlyNetworks: "Only from",
    fromPages: "Web pages",
    most: "Highest rate",
    mostOf: (price: string) => `${price} per 1 million tokens`,
  },
})
