/** The dialog that refunds a top-up or what is left of a closed account, and the words of refunds. */
import { api, unwrap } from "../../api/client.ts"
import { Choice, SelectField, TextField } from "../../components/form.tsx"
import { FormDialog } from "../../components/dialog.tsx"
import { useFormat, texts, useLanguage, useLanguageChange } from "../../i18n/language.tsx"
import { amountIn, parseRupiah } from "../../i18n/figures.ts"
import { MadeBefore, once, ReasonField, useAction, useDraft } from "./act-dialog.tsx"

export interface RefundedTopUp {
  readonly id: string
  readonly status: string
  readonly created_at: string
  readonly refunded_micro: number
  readonly breakdown: { readonly total_micro: number; readonly balance_purchased_micro: number }
}

export interface RefundedAccount {
  readonly id: string
  readonly balance_micro: number
  readonly held_micro: number
  readonly deleted_at: string | null
  /** The latest ones. */
  readonly top_ups: readonly RefundedTopUp[]
}

const payouts = ["by_hand", "provider"] as const

/** As typed; without a top-up it is what is left of a closed account. */
interface RefundDraft {
  readonly topUp: string
  readonly amount: string
  readonly payout: (typeof payouts)[number]
  readonly reason: string
}

interface RefundDialogProps {
  readonly account: RefundedAccount
  /** The one that is chosen at first, which may be an older one. */
  readonly first?: RefundedTopUp
  readonly onClose: () => void
}

/** Refunds a top-up, or what is left of a closed account. */
export function RefundDialog({ account, first, onClose }: RefundDialogProps) {
  const text = useRefundsText()
  const format = useFormat()
  const { language } = useLanguage()
  const isOlder = first !== undefined && account.top_ups.every(({ id }) => id !== first.id)
  const topUps = [...(isOlder ? [first] : []), ...account.top_ups].filter(isRefundable)
  const isClosed = account.deleted_at !== null
  const mostOf = (id: string) => {
    const free = freeOf(account)
    const topUp = topUps.find((one) => one.id === id)
    if (topUp === undefined) return free
    const bought = BigInt(topUp.breakdown.balance_purchased_micro) - BigInt(topUp.refunded_micro)
    // Fees go back once all that was bought does.
    return bought <= free ? leftOf(topUp) : free
  }
  const { values, set, sent, send } = useDraft<RefundDraft>({
    topUp: first?.id ?? (isClosed ? "" : (topUps[0]?.id ?? "")),
    // How much goes back is the operator's to say.
    amount: "",
    payout: "by_hand",
    reason: "",
  })
  useLanguageChange((was) => set({ amount: amountIn(language, values.amount, was) }))
  const refund = useAction({
    run: (body: { top_up_id: string | null; amount_micro: number; payout: (typeof payouts)[number]; reason: string }) =>
      once(`refund of ${account.id}`, (key) =>
        unwrap(api.operator.accounts({ id: account.id }).refunds.post({ ...body, idempotency_key: key })),
      ),
    done: ({ status }) => text.made[status],
    onClose,
  })
  const amount = parseRupiah(values.amount, language)
  const most = mostOf(values.topUp)
  const amountWrong = amount === undefined || amount <= 0n
  const isTooMuch = !amountWrong && amount > most
  const reason = values.reason.trim()
  if (!isClosed && topUps.length === 0) {
    return (
      <FormDialog
        title={text.refundTitle}
        submit={text.understood}
        busy={false}
        error={null}
        onSubmit={onClose}
        onClose={onClose}
      >
        <p>{text.nothing}</p>
      </FormDialog>
    )
  }
  return (
    <FormDialog
      title={text.refundTitle}
      submit={amountWrong ? text.refund : text.refundAct(format.rupiah(amount, "exact"))}
      busy={refund.isPending}
      error={refund.error}
      onSubmit={() => {
        send()
        if (amountWrong || isTooMuch || reason === "") return
        const payout = values.topUp === "" ? "by_hand" : values.payout
        refund.mutate({ top_up_id: values.topUp || null, amount_micro: Number(amount), payout, reason })
      }}
      onClose={onClose}
    >
      <MadeBefore error={refund.error} />
      <p>{text.refundText}</p>
      <SelectField
        label={text.of}
        value={values.topUp}
        onChange={({ target }) => set({ topUp: target.value })}
        options={[
          ...(isClosed ? [{ value: "", label: text.leftOver(format.rupiah(account.balance_micro)) }] : []),
          ...topUps.map((topUp) => ({
            value: topUp.id,
            // Two of one amount may be of one minute.
            label: `${format.dateTime(topUp.created_at)} · ${format.rupiah(leftOf(topUp))} · ${topUp.id}`,
          })),
        ]}
      />
      <TextField
        label={text.amount}
        before="Rp"
        inputMode="decimal"
        autoComplete="off"
        data-autofocus
        error={sent ? (amountWrong ? text.amountWrong : isTooMuch ? text.amountTooMuch : undefined) : undefined}
        hint={`${text.amountHint(format.rupiah(most, "exact"), values.topUp !== "")}${
          account.held_micro > 0 ? ` ${text.held(format.rupiah(account.held_micro, "exact"))}` : ""
        }`}
        value={values.amount}
        onChange={({ target }) => set({ amount: target.value })}
      />
      {values.topUp !== "" && (
        <Choice
          label={text.payout}
          values={payouts}
          chosen={values.payout}
          nameOf={(payout) => text.payouts[payout]}
          onChoose={(payout) => set({ payout })}
        />
      )}
      <ReasonField
        shown
        label={text.reason}
        missing={sent && reason === ""}
        value={values.reason}
        onChange={({ target }) => set({ reason: target.value })}
      />
    </FormDialog>
  )
}

/** What calls under way may cost cannot go back. */
const freeOf = ({ balance_micro: balance, held_micro: held }: RefundedAccount): bigint =>
  balance > held ? BigInt(balance) - BigInt(held) : 0n

const leftOf = ({ breakdown, refunded_micro: back }: RefundedTopUp): bigint =>
  BigInt(breakdown.total_micro) - BigInt(back)

/** Whether something of it can go back. */
export const isRefundable = (topUp: RefundedTopUp): boolean => topUp.status === "paid" && leftOf(topUp) > 0n

export const useRefundsText = texts({
  id: {
    refunds: "Pengembalian dana",
    none: "Belum ada dana yang dikembalikan",
    refund: "Kembalikan dana",
    refundTitle: "Kembalikan dana",
    refundText:
      "Dana diambil dari saldo pelanggan lebih dulu, lalu dibayarkan kepadanya. Yang sudah terpakai atau sedang ditahan tidak dapat dikembalikan.",
    nothing: "Tidak ada isi saldo yang dapat dikembalikan. Sisa saldo dikembalikan setelah akun ditutup.",
    understood: "Mengerti",
    refundAct: (amount: string) => `Kembalikan ${amount}`,
    of: "Dari",
    leftOver: (amount: string) => `Sisa saldo akun yang ditutup · ${amount}`,
    amount: "Jumlah",
    amountWrong: "Isi dengan jumlah rupiah di atas nol.",
    amountTooMuch: "Lebih besar daripada yang dapat dikembalikan.",
    amountHint: (most: string, ofTopUp: boolean) =>
      `Paling banyak ${most}.${ofTopUp ? " Saldo yang dibeli kembali lebih dulu, baru biayanya." : ""}`,
    held: (amount: string) => `${amount} sedang ditahan untuk panggilan yang berjalan.`,
    payout: "Cara membayarkan",
    payouts: { by_hand: "Transfer sendiri", provider: "Lewat penyedia pembayaran" },
    reason: "Alasan",
    made: {
      booked: "Dana diambil dari saldo. Transfer ke pelanggan, lalu catat nomor transfernya.",
      sending: "Penyedia pembayaran belum menjawab; permintaannya diulang sendiri sampai ada jawaban.",
      paid_out: "Dana dikembalikan oleh penyedia pembayaran.",
      cancelled: "Pengembalian dana dibatalkan.",
    },
    columns: { kind: "Jenis", time: "Waktu", amount: "Jumlah", note: "Keterangan", status: "Status" },
    kinds: { refund: "Oleh operator", provider_refund: "Oleh penyedia pembayaran", chargeback: "Oleh bank pembayar" },
    statuses: {
      booked: "Belum dibayarkan",
      sending: "Menunggu penyedia",
      paid_out: "Sudah dibayarkan",
      cancelled: "Dibatalkan",
    },
    claimed: (amount: string) => `${amount} sudah terpakai dan menjadi tagihan`,
    refused: (why: string) => `Ditolak penyedia: ${why}`,
    acts: { "paid-out": "Catat transfer", send: "Kirim lewat penyedia", cancel: "Batalkan" },
    actTitles: {
      "paid-out": (amount: string) => `Catat transfer ${amount}`,
      send: (amount: string) => `Kirim ${amount} lewat penyedia?`,
      cancel: (amount: string) => `Kembalikan ${amount} ke saldo?`,
    },
    actTexts: {
      "paid-out": "Catat setelah dana benar-benar ditransfer. Catatan ini tidak dapat diubah.",
      send: "Penyedia pembayaran diminta mengembalikannya kepada pembayar, satu kali saja.",
      cancel:
        "Dana masuk lagi ke saldo pelanggan. Batalkan hanya jika belum ditransfer. Yang sudah ditarik bank dari isi saldo ini dan belum dibukukan langsung dipotong lagi.",
    },
    unanswered:
      "Penyedia pembayaran sudah diminta membayarkannya dan belum menjawab. Pastikan di penyedia bahwa dana belum dikembalikan sebelum Anda mentransfernya.",
    actsDone: {
      "paid-out": "Transfer dicatat.",
      send: "Penyedia pembayaran diminta mengembalikannya.",
      cancel: "Dana masuk lagi ke saldo.",
    },
    reference: "Nomor transfer",
    referenceHint: "Seperti yang tercatat di bank.",
    claim: "Tagihan",
    claimNote: "Dilunasi lebih dulu dari saldo berikutnya",
  },
  en: {
    refunds: "Refunds",
    none: "Nothing went back yet",
    refund: "Refund",
    refundTitle: "Refund",
    refundText:
      "The money is taken of the customer's balance first and then paid out. What is spent or held cannot go back.",
    nothing: "No top-up can be refunded. What is left of the balance goes back once the account is closed.",
    understood: "Understood",
    refundAct: (amount: string) => `Refund ${amount}`,
    of: "Of",
    leftOver: (amount: string) => `What is left of the closed account · ${amount}`,
    amount: "Amount",
    amountWrong: "Enter an amount of rupiah above zero.",
    amountTooMuch: "More than can go back.",
    amountHint: (most: string, ofTopUp: boolean) =>
      `At most ${most}.${ofTopUp ? " The balance that was bought goes back first, then its fees." : ""}`,
    held: (amount: string) => `${amount} is held for calls under way.`,
    payout: "Paid out",
    payouts: { by_hand: "By my own transfer", provider: "By the payment provider" },
    reason: "Reason",
    made: {
      booked: "Taken of the balance. Transfer it to the customer, then write down the transfer's number.",
      sending: "The payment provider has not answered; it is asked again until it does.",
      paid_out: "The payment provider has paid it back.",
      cancelled: "The refund is cancelled.",
    },
    columns: { kind: "Kind", time: "Time", amount: "Amount", note: "Note", status: "Status" },
    kinds: { refund: "By an operator", provider_refund: "By the payment provider", chargeback: "By the payer's bank" },
    statuses: {
      booked: "To be paid out",
      sending: "Awaiting the provider",
      paid_out: "Paid out",
      cancelled: "Cancelled",
    },
    claimed: (amount: string) => `${amount} was spent and became a claim`,
    refused: (why: string) => `Refused by the provider: ${why}`,
    acts: { "paid-out": "Record transfer", send: "Send by provider", cancel: "Cancel" },
    actTitles: {
      "paid-out": (amount: string) => `Record the transfer of ${amount}`,
      send: (amount: string) => `Send ${amount} by the provider?`,
      cancel: (amount: string) => `Give ${amount} back to the balance?`,
    },
    actTexts: {
      "paid-out": "Record it when the money was really transferred. The record cannot be changed.",
      send: "The payment provider is asked to pay it back to the payer, once.",
      cancel:
        "The customer's balance gets it back. Cancel only what was not transferred. What a bank has taken back of this top-up and is not booked yet is taken of it at once.",
    },
    unanswered:
      "The payment provider was asked to pay it out, and has not answered. Make sure at the provider that it has not paid before you transfer it.",
    actsDone: {
      "paid-out": "The transfer is recorded.",
      send: "The payment provider is asked to pay it back.",
      cancel: "The balance has it back.",
    },
    reference: "Transfer number",
    referenceHint: "As the bank has it.",
    claim: "Claim",
    claimNote: "Settled first from what comes next",
  },
})
