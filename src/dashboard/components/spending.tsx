/**
 * Breakers and runs where more than one page shows them: the words, a breaker's fields, and the dialog that ends a run.
 */
import { api, unwrap } from "../api/client.ts"
import { type Language, texts } from "../i18n/language.tsx"
import { amountText, parseRupiah } from "../i18n/figures.ts"
import { ConfirmDialog } from "./dialog.tsx"
import { Choice, TextField } from "./form.tsx"

/** Of a breaker's fields, and of warnings of unusual spending. */
export const useBreakerText = texts({
  id: {
    ceiling: "Paling banyak dalam 10 menit",
    ceilingHint:
      "Pengeluaran dalam 10 menit yang membuat Anda diperingatkan, atau kunci dihentikan. Kosongkan jika tidak perlu.",
    action: "Pada batas itu",
    actions: { warn: "Peringatkan saya", stop: "Hentikan" },
    actionHints: {
      warn: "Begitu pengeluaran melewatinya, Anda diperingatkan; panggilan tetap jalan.",
      stop: "Batas tidak pernah terlampaui: panggilan berikutnya ditolak dengan quota.key_paused, dan Anda langsung diberi tahu. Panggilan yang sedang berjalan diselesaikan.",
    },
    pause: "Lanjut lagi",
    pauses: { none: "Setelah saya lanjutkan", "15": "15 menit", "60": "1 jam", "1440": "1 hari" },
    pauseOther: (minutes: string) => `${minutes} menit`,
    pausedTag: "Dijeda",
    paused: (since: string) => `Dijeda sejak ${since}: pengeluaran 10 menit mencapai batasnya.`,
    accountPaused: (since: string) =>
      `Semua kunci dijeda sejak ${since}: pengeluaran 10 menit mencapai batas akun ini.`,
    until: (time: string) => `Lanjut sendiri ${time}.`,
    resume: "Lanjutkan",
    resumed: "Dilanjutkan; 10 menitnya dihitung dari awal",
    amountWrong: "Tulis jumlah rupiah di atas nol, seperti 50.000.",
    keyTitle: (name: string) => `Pengaman ${name}`,
    keyIntro: "Untuk kunci yang bocor atau program yang berputar tanpa henti.",
    keyAction: "Pengaman",
    keyCeilings: {
      warn: (amount: string) => `Peringatan di atas ${amount} dalam 10 menit`,
      stop: (amount: string) => `Paling banyak ${amount} dalam 10 menit`,
    },
    title: "Pengaman pengeluaran",
    intro:
      "Peringatan lewat e-mail, dasbor, dan webhook saat pengeluaran dalam 10 menit tidak seperti biasa. Setiap kunci dapat punya batasnya sendiri, di halaman kunci API.",
    on: "Aktif",
    off: "Nonaktif",
    factor: "Peringatkan jika pengeluaran",
    factors: { "5": "5× biasanya", "10": "10× biasanya", "20": "20× biasanya", none: "Jangan" },
    factorOther: (factor: string) => `${factor}× biasanya`,
    factorHint:
      "Yang biasa adalah rata-rata jam yang sama pada empat minggu terakhir. Di bawah Rp\u00a010.000 tidak pernah diperingatkan.",
    save: "Simpan",
    saved: "Pengaman disimpan",
    unusualKey: (name: string, spent: string) => `Kunci ${name} memakai ${spent} dalam 10 menit`,
    unusualAccount: (spent: string) => `Akun ini memakai ${spent} dalam 10 menit`,
    overCeiling: (threshold: string) => `batasnya ${threshold}`,
    overUsual: (threshold: string) => `pada jam ini paling banyak ${threshold} masih dianggap biasa`,
    toKeys: "Lihat kunci",
    dismiss: "Saya tahu",
  },
  en: {
    ceiling: "At most within 10 minutes",
    ceilingHint:
      "Spending within 10 minutes at which you are warned, or keys are stopped. Leave it empty if you need none.",
    action: "At that ceiling",
    actions: { warn: "Warn me", stop: "Stop" },
    actionHints: {
      warn: "As soon as spending passes it you are warned; calls go on.",
      stop: "The ceiling is never passed: the next call is refused with quota.key_paused, and you are told at once. Calls under way are finished.",
    },
    pause: "Goes on",
    pauses: { none: "When I resume it", "15": "15 minutes", "60": "1 hour", "1440": "1 day" },
    pauseOther: (minutes: string) => `${minutes} ${minutes === "1" ? "minute" : "minutes"}`,
    pausedTag: "Paused",
    paused: (since: string) => `Paused since ${since}: spending of 10 minutes reached its ceiling.`,
    accountPaused: (since: string) =>
      `All keys are paused since ${since}: spending of 10 minutes reached this account's ceiling.`,
    until: (time: string) => `Goes on by itself ${time}.`,
    resume: "Resume",
    resumed: "Resumed; its 10 minutes begin anew",
    amountWrong: "Enter an amount of rupiah above zero, such as 50,000.",
    keyTitle: (name: string) => `Breaker of ${name}`,
    keyIntro: "For a key that has leaked, or a program that runs in circles.",
    keyAction: "Breaker",
    keyCeilings: {
      warn: (amount: string) => `A warning over ${amount} within 10 minutes`,
      stop: (amount: string) => `At most ${amount} within 10 minutes`,
    },
    title: "Spending breaker",
    intro:
      "A warning by e-mail, in the dashboard and by webhook when the spending of 10 minutes is unusual. Each key may have a ceiling of its own, on the page of API keys.",
    on: "On",
    off: "Off",
    factor: "Warn when spending is",
    factors: { "5": "5× the usual", "10": "10× the usual", "20": "20× the usual", none: "Never" },
    factorOther: (factor: string) => `${factor}× the usual`,
    factorHint:
      "The usual is the mean of the same hour in the last four weeks. Less than Rp\u00a010,000 is never warned of.",
    save: "Save",
    saved: "Breaker saved",
    unusualKey: (name: string, spent: string) => `The key ${name} has spent ${spent} within 10 minutes`,
    unusualAccount: (spent: string) => `This account has spent ${spent} within 10 minutes`,
    overCeiling: (threshold: string) => `its ceiling is ${threshold}`,
    overUsual: (threshold: string) => `at this hour up to ${threshold} is usual`,
    toKeys: "Look at the keys",
    dismiss: "Dismiss",
  },
})

export interface BreakerDraft {
  readonly ceiling: string
  readonly action: (typeof ACTIONS)[number]
  /** Minutes, or `none`. */
  readonly pause: string
}

export interface BreakerSettings {
  readonly ceiling_micro: number | null
  readonly action: BreakerDraft["action"]
  readonly pause_minutes: number | null
}

const ACTIONS = ["warn", "stop"] as const
const PAUSES = ["none", "15", "60", "1440"] as const
const isKnown = (pause: string): pause is (typeof PAUSES)[number] => PAUSES.some((known) => known === pause)

/** The fields of a breaker, of a key or of the account: text while it is typed. An empty ceiling is none. */
export const breakerDraft = (settings: BreakerSettings, language: Language): BreakerDraft => ({
  ceiling: settings.ceiling_micro === null ? "" : amountText(settings.ceiling_micro, language),
  action: settings.action,
  pause: settings.pause_minutes === null ? "none" : String(settings.pause_minutes),
})

/** The body to send; undefined when the ceiling is no amount. */
export function readBreaker({ ceiling, action, pause }: BreakerDraft, language: Language): BreakerSettings | undefined {
  const rest = { action, pause_minutes: pause === "none" ? null : Number(pause) }
  if (ceiling.trim() === "") return { ceiling_micro: null, ...rest }
  const micro = parseRupiah(ceiling, language)
  if (micro === undefined || micro < 1n || micro > BigInt(Number.MAX_SAFE_INTEGER)) return undefined
  return { ceiling_micro: Number(micro), ...rest }
}

interface BreakerFieldsProps {
  readonly draft: BreakerDraft
  /** It was submitted, and is no amount. */
  readonly wrong: boolean
  readonly onChange: (change: Partial<BreakerDraft>) => void
}

export function BreakerFields({ draft, wrong, onChange }: BreakerFieldsProps) {
  const text = useBreakerText()
  // One that was set through the API stays a choice.
  const pauses = isKnown(draft.pause) ? PAUSES : [draft.pause, ...PAUSES]
  return (
    <>
      <TextField
        label={text.ceiling}
        hint={text.ceilingHint}
        error={wrong ? text.amountWrong : undefined}
        optional
        before="Rp"
        inputMode="decimal"
        autoComplete="off"
        maxLength={24}
        value={draft.ceiling}
        onChange={({ target }) => onChange({ ceiling: target.value })}
      />
      {draft.ceiling.trim() !== "" && (
        <Choice
          label={text.action}
          hint={text.actionHints[draft.action]}
          values={ACTIONS}
          chosen={draft.action}
          nameOf={(action) => text.actions[action]}
          onChoose={(action) => onChange({ action })}
        />
      )}
      {draft.ceiling.trim() !== "" && draft.action === "stop" && (
        <Choice
          label={text.pause}
          values={pauses}
          chosen={draft.pause}
          nameOf={(pause) => (isKnown(pause) ? text.pauses[pause] : text.pauseOther(pause))}
          onChoose={(pause) => onChange({ pause })}
        />
      )}
    </>
  )
}

/** Of runs: their list at a key, and one above its calls. */
export const useRunText = texts({
  id: {
    title: "Run",
    left: "Sisa anggaran",
    spent: "Terpakai",
    of: (spent: string, budget: string) => `${spent} dari ${budget}`,
    calls: "Panggilan",
    ends: "Berakhir",
    ended: (when: string) => `${when}, sudah berakhir`,
    key: "Kunci API",
    models: "Biaya per model",
    allCalls: "Lihat semua panggilannya",
    clear: "Tampilkan semua panggilan",
    any: "Semua run",
    action: "Run",
    titleOf: (name: string) => `Run dari ${name}`,
    intro:
      "Panggilan dengan X-Run-Id yang sama adalah satu run, yang belanja paling banyak anggarannya. Run tetap ada di sini 30 hari setelah berakhir.",
    list: "Run",
    none: "Belum ada run.",
    columns: { name: "Nama", spent: "Terpakai", ends: "Berakhir", act: "Tindakan" },
    end: "Akhiri",
    endNamed: (name: string) => `Akhiri ${name}`,
    endTitle: (name: string) => `Akhiri run ${name}?`,
    endText:
      "Panggilan berikutnya ditolak dengan quota.run_limit_exceeded. Panggilan yang sedang berjalan diselesaikan. Run yang berakhir tidak bisa dilanjutkan.",
    endNow: "Akhiri run",
    endDone: (name: string) => `${name} berakhir`,
    close: "Tutup",
  },
  en: {
    title: "Run",
    left: "Left of the budget",
    spent: "Spent",
    of: (spent: string, budget: string) => `${spent} of ${budget}`,
    calls: "Calls",
    ends: "Ends",
    ended: (when: string) => `${when}, has ended`,
    key: "API key",
    models: "Cost by model",
    allCalls: "See all its calls",
    clear: "Show all calls",
    any: "All runs",
    action: "Runs",
    titleOf: (name: string) => `Runs of ${name}`,
    intro:
      "Calls with the same X-Run-Id are one run, which spends at most its budget. A run stays here for 30 days after its end.",
    list: "Runs",
    none: "No runs yet.",
    columns: { name: "Name", spent: "Spent", ends: "Ends", act: "Actions" },
    end: "End",
    endNamed: (name: string) => `End ${name}`,
    endTitle: (name: string) => `End the run ${name}?`,
    endText:
      "Its next call is refused with quota.run_limit_exceeded. Calls under way are finished. A run that has ended cannot go on.",
    endNow: "End run",
    endDone: (name: string) => `${name} has ended`,
    close: "Close",
  },
})

interface EndRunProps {
  readonly run: { readonly id: string; readonly name: string }
  readonly onClose: () => void
}

/** Ends a run before its time. */
export function EndRunDialog({ run: { id, name }, onClose }: EndRunProps) {
  const text = useRunText()
  return (
    <ConfirmDialog
      title={text.endTitle(name)}
      act={text.endNow}
      done={text.endDone(name)}
      run={() => unwrap(api.runs({ id }).end.post())}
      stale={[["runs"], ["sums", "run", id]]}
      onClose={onClose}
    >
      <p>{text.endText}</p>
    </ConfirmDialog>
  )
}
