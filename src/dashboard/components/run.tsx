/** Runs where more than one page shows them: the words, and the dialog that ends one. */
import { api, unwrap } from "../api/client.ts"
import { texts } from "../i18n/language.tsx"
import { ConfirmDialog } from "./dialog.tsx"

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
