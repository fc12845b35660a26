/** A QR code to scan, how long it can be, and what somebody does who has no second screen to scan it from. */
import { Copy, Download, ExternalLink } from "lucide-react"
import { Button } from "../../components/button.tsx"
import { Card } from "../../components/card.tsx"
import { Money } from "../../components/money.tsx"
import { useToasts } from "../../components/toast.tsx"
import { useFormat } from "../../i18n/format.ts"
import { CheckPayment } from "./check-payment.tsx"
import { minutesAndSeconds, useCountdown } from "./countdown.ts"
import type { TopUp } from "./data.ts"
import { qrPng, save, svgAddress } from "./qr-image.ts"
import { useWalletText } from "./text.ts"

interface PayByQrProps {
  readonly topUp: TopUp
  /** When the seconds that are left were told. */
  readonly toldAt: number
  readonly over: () => void
}

/** Under this the clock is told as a warning. */
const SHORT_S = 120

export function PayByQr({ topUp, toldAt, over }: PayByQrProps) {
  const text = useWalletText()
  const left = useCountdown(topUp.expires_in_s, toldAt, over)
  return (
    <div className="pay">
      <Card>
        <div className="pay-code">
          <p className="pay-total">
            <span>{text.total}</span>
            <strong>
              <Money micro={topUp.breakdown.total_micro} />
            </strong>
          </p>
          <Code topUp={topUp} />
          <p className={left < SHORT_S ? "pay-left is-short" : "pay-left"}>
            {text.timeLeft} <strong role="timer">{minutesAndSeconds(left)}</strong>
          </p>
        </div>
      </Card>
      <Card title={text.stepsTitle}>
        <div className="pay-how">
          <ol className="pay-steps">
            {text.steps.map((step) => (
              <li key={step}>{step}</li>
            ))}
          </ol>
          {topUp.pay_url !== null && <SimulatedPay address={topUp.pay_url} />}
          <CheckPayment topUp={topUp} />
          <p className="pay-note">{text.late}</p>
        </div>
      </Card>
    </div>
  )
}

function Code({ topUp: { qr, breakdown } }: { readonly topUp: TopUp }) {
  const text = useWalletText()
  const format = useFormat()
  const toasts = useToasts()
  if (qr === null) return <p>{text.notMade}</p>
  const rupiah = String(BigInt(breakdown.total_micro) / 1_000_000n)
  const copy = () =>
    navigator.clipboard.write([new ClipboardItem({ "image/png": qrPng(qr.svg) })]).then(
      () => toasts.done(text.copied),
      () => toasts.failed(text.copyFailed),
    )
  const keep = async () => {
    save(await qrPng(qr.svg), `loket-qris-${rupiah}.png`)
    toasts.done(text.saved)
  }
  return (
    <>
      <img className="pay-qr" src={svgAddress(qr.svg)} alt={text.qrAlt(format.rupiah(breakdown.total_micro))} />
      <div className="pay-code-actions">
        <Button size="small" icon={<Download />} onClick={() => void keep()}>
          {text.save}
        </Button>
        <Button size="small" icon={<Copy />} onClick={() => void copy()}>
          {text.copyImage}
        </Button>
      </div>
    </>
  )
}

/** While payments are simulated, pressing a button is what scanning the code would be. */
function SimulatedPay({ address }: { readonly address: string }) {
  const text = useWalletText()
  return (
    <div className="pay-simulated">
      <p>{text.simulated}</p>
      <a className="button button-primary button-medium" href={address} target="_blank" rel="noopener">
        <ExternalLink aria-hidden="true" />
        {text.simulatedPay}
        <span className="visually-hidden"> ({text.newTab})</span>
      </a>
    </div>
  )
}
