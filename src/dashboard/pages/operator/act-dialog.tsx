/**
 * An operator's action that is confirmed: what will happen, a reason where one is kept, a button that names it; and the words
 * that the operator's pages share.
 */
import { useQueryClient } from "@tanstack/react-query"
import { nanoid } from "nanoid"
import { type ComponentProps, type ReactNode, useCallback, useEffect, useRef, useState } from "react"
import { ApiFailure } from "../../api/client.ts"
import { briefly, useChange } from "../../api/queries.ts"
import { FormDialog } from "../../components/dialog.tsx"
import { useToasts } from "../../components/feedback.tsx"
import { formText, TextField } from "../../components/form.tsx"
import { texts } from "../../i18n/language.tsx"

interface ActDialogProps<Output> {
  readonly title: string
  /** What will happen. */
  readonly children: ReactNode
  /** The word on the button, and the notice when it is done. */
  readonly act: string
  readonly done: string
  /** That somebody else had done it before, and otherwise. */
  readonly before?: (output: Output, reason: string) => string | undefined
  readonly danger?: boolean
  /** The label of the reason's field; without one no reason is asked for. */
  readonly reason?: string
  readonly run: (reason: string) => Promise<Output>
  readonly onClose: () => void
}

export function ActDialog<Output>(props: ActDialogProps<Output>) {
  const { title, children, act, done, before, danger = false, reason, run, onClose } = props
  const [missing, setMissing] = useState(false)
  const action = useAction({ run, done: () => done, before, onClose })
  const send = (form: FormData) => {
    const given = formText(form, "reason").trim()
    setMissing(reason !== undefined && given === "")
    if (reason === undefined || given !== "") action.mutate(given)
  }
  return (
    <FormDialog
      title={title}
      submit={act}
      danger={danger}
      busy={action.isPending}
      error={action.error}
      onSubmit={send}
      onClose={onClose}
    >
      {children}
      {reason !== undefined && (
        <ReasonField label={reason} name="reason" missing={missing} data-autofocus onChange={() => setMissing(false)} />
      )}
    </FormDialog>
  )
}

interface ReasonFieldProps extends Omit<ComponentProps<typeof TextField>, "hint" | "error" | "maxLength"> {
  /** It was sent without one. */
  readonly missing: boolean
  /** It stands on the customer's statement. */
  readonly shown?: boolean
}

/** Why an operator does something: one line, kept in the audit log. */
export function ReasonField({ missing, shown = false, ...field }: ReasonFieldProps) {
  const text = useOperatorText()
  return (
    <TextField
      {...field}
      hint={shown ? text.reasonShownHint : text.reasonHint}
      error={missing ? text.reasonWrong : undefined}
      maxLength={500}
      autoComplete="off"
    />
  )
}

/** What has to be ticked before something unusual is done. */
export const Confirm = ({ children, ...box }: ComponentProps<"input">) => (
  <label className="check">
    <input type="checkbox" {...box} />
    {children}
  </label>
)

interface Action<Input, Output> {
  readonly run: (input: Input) => Promise<Output>
  /** The notice when it is done. */
  readonly done: (output: Output) => string
  /** The notice that it was done before, where it was. */
  readonly before?: ((output: Output, input: Input) => string | undefined) | undefined
  readonly onClose: () => void
}

/** What every dialog of an operator does with its action: run it, refetch what it may have changed, say so, and close. */
export function useAction<Input, Output>({ run, done, before, onClose }: Action<Input, Output>) {
  const toasts = useToasts()
  const refetchAll = useRefetchAll()
  const isToBeSeen = useRef(false)
  // Not while the dialog is open: what it sends again would be judged by what it did before.
  useEffect(() => () => void (isToBeSeen.current && refetchAll()), [refetchAll])
  return useChange({
    mutationFn: run,
    onSuccess: async (output, input) => {
      await briefly(refetchAll())
      const other = before?.(output, input)
      if (other === undefined) toasts.done(done(output))
      else toasts.failed(other)
      onClose()
    },
    // It may have been done although the answer got lost, and a refusal tells that something is not as the page has it.
    onError: () => {
      isToBeSeen.current = true
    },
  })
}

const KEPT_MS = 10 * 60_000
/** Keys of what was sent and whose outcome is not known, by what they are for. */
const open = new Map<string, { readonly key: string; readonly untilMs: number }>()

/**
 * Moves money once, under a key. Whether it was moved is not known when the answer got lost: until it is, also who closes the
 * dialog and opens it again sends under the same key. The server then does the same once, and refuses something else.
 */
export async function once<Output>(what: string, send: (key: string) => Promise<Output>): Promise<Output> {
  const before = open.get(what)
  const isOpen = before !== undefined && before.untilMs > Date.now()
  const intent = isOpen ? before : { key: nanoid(), untilMs: Date.now() + KEPT_MS }
  open.set(what, intent)
  const isKnown = () => open.get(what) === intent && open.delete(what)
  try {
    const output = await send(intent.key)
    isKnown()
    return output
  } catch (error) {
    // The server judged it: nothing was moved now.
    if (error instanceof ApiFailure && [400, 404].includes(error.status)) isKnown()
    throw error
  }
}

/** Below a refusal of `once`, whose own words are of keys: what was sent before had been done. */
export function MadeBefore({ error }: { readonly error: Error | null }) {
  const text = useOperatorText()
  const isMade = error instanceof ApiFailure && error.body?.error.startsWith("'idempotency_key' was used") === true
  return isMade && <p className="operator-notice">{text.madeBefore}</p>
}

/** The values of a form's fields, and whether it was sent: from then on wrong fields say so. */
export function useDraft<Values>(initial: Values) {
  const [values, setValues] = useState(initial)
  const [sent, setSent] = useState(false)
  return {
    values,
    set: (change: Partial<Values>) => setValues((before) => ({ ...before, ...change })),
    sent,
    send: () => setSent(true),
  }
}

/** After an action: refetches what the operator's pages show, and the catalogue. */
function useRefetchAll(): () => Promise<void> {
  const client = useQueryClient()
  return useCallback(async () => {
    await Promise.all(["operator", "models"].map((key) => client.invalidateQueries({ queryKey: [key] })))
  }, [client])
}

/** The words that the operator's pages share. */
export const useOperatorText = texts({
  id: {
    navigation: "Bagian operator",
    sections: {
      overview: "Ringkasan",
      profit: "Laba",
      accounts: "Akun",
      topUps: "Isi saldo",
      refunds: "Pengembalian dana",
      problems: "Masalah pembayaran",
      models: "Model dan harga",
      backends: "Backend",
      billing: "Pembukuan",
      audit: "Log audit",
    },
    reasonHint: "Tersimpan di log audit, untuk siapa pun yang membacanya nanti.",
    reasonShownHint: "Pelanggan membacanya di mutasinya. Tersimpan juga di log audit.",
    reasonWrong: "Wajib diisi: satu baris, paling banyak 500 karakter.",
    madeBefore:
      "Yang Anda kirim sebelumnya sudah dibukukan, walaupun jawabannya tidak sampai. Tutup dialog ini dan periksa buku besar. Kirim lagi hanya jika yang ini juga dimaksud.",
    search: "Cari",
    clear: "Hapus pencarian",
    back: "Kembali",
    rates: {
      input_micro: "Masukan",
      output_micro: "Keluaran",
      cache_read_micro: "Baca cache",
      cache_write_micro: "Tulis cache",
    },
    fields: {
      effective_at: "Berlaku sejak",
      display_name: "Nama tampilan",
      tier: "Kelas",
      max_concurrency: "Panggilan serentak",
      fallback: "Rantai cadangan",
      pass: "Kolom yang diteruskan",
      target: "Dilayani sebagai",
      until: "Sampai",
      frozen: "Dibekukan",
      balance_micro: "Saldo",
      amount_micro: "Jumlah",
      transfer: "Transfer",
      role: "Peran",
      resolved: "Selesai",
      state: "Status",
      weight: "Bobot",
      retried_at: "Dicoba lagi",
    },
    roles: { support: "dukungan", finance: "keuangan", owner: "pemilik" },
    needsRole: (role: string) => `Perlu peran ${role} atau yang di atasnya`,
    roleNote: {
      support:
        "Peran Anda: dukungan (support). Anda dapat membaca semuanya, membekukan akun dan membukanya kembali, dan mencabut kunci. Tombol lainnya mati: saldo, harga, model, dan kurs perlu peran keuangan (finance); peran dan backend perlu peran pemilik (owner).",
      finance:
        "Peran Anda: keuangan (finance). Tombol untuk peran operator dan backend mati: keduanya perlu peran pemilik (owner).",
    },
    field: "Bidang",
    before: "Sebelum",
    after: "Sesudah",
    nothing: "–",
    yes: "ya",
    no: "tidak",
  },
  en: {
    navigation: "Operator sections",
    sections: {
      overview: "Overview",
      profit: "Profit",
      accounts: "Accounts",
      topUps: "Top-ups",
      refunds: "Refunds",
      problems: "Payment problems",
      models: "Models and prices",
      backends: "Backends",
      billing: "Billing health",
      audit: "Audit log",
    },
    reasonHint: "Kept in the audit log, for whoever reads it later.",
    reasonShownHint: "The customer reads it on the statement. Kept in the audit log too.",
    reasonWrong: "Required: one line, at most 500 characters.",
    madeBefore:
      "What you sent before was booked, although its answer got lost. Close this and look at the ledger. Send again only if this one is meant as well.",
    search: "Search",
    clear: "Clear search",
    back: "Back",
    rates: {
      input_micro: "Input",
      output_micro: "Output",
      cache_read_micro: "Cache read",
      cache_write_micro: "Cache write",
    },
    fields: {
      effective_at: "In force from",
      display_name: "Display name",
      tier: "Tier",
      max_concurrency: "Concurrent calls",
      fallback: "Fallback chain",
      pass: "Fields that pass",
      target: "Served as",
      until: "Until",
      frozen: "Frozen",
      balance_micro: "Balance",
      amount_micro: "Amount",
      transfer: "Transfer",
      role: "Role",
      resolved: "Resolved",
      state: "State",
      weight: "Weight",
      retried_at: "Tried again",
    },
    roles: { support: "support", finance: "finance", owner: "owner" },
    needsRole: (role: string) => `Needs the role ${role} or above`,
    roleNote: {
      support:
        "Your role is support: you read everything, freeze and reopen accounts, and revoke keys. The other buttons are disabled: balances, prices, models and exchange rates need the role finance; roles and backends need the role owner.",
      finance:
        "Your role is finance. Buttons for operators' roles and for backends are disabled: they need the role owner.",
    },
    field: "Field",
    before: "Before",
    after: "After",
    nothing: "–",
    yes: "yes",
    no: "no",
  },
})
