/** A QR code to scan, the time that is left, and what to do without a second screen to scan it from. */
import { useQueryClient } from "@tanstack/react-query"
import { Copy, Download, ExternalLink } from "lucide-react"
import { useEffect, useState } from "react"
import { save } from "../../api/browser.ts"
import { useChange } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { ErrorState, useToasts } from "../../components/feedback.tsx"
import { Card } from "../../components/layout.tsx"
import { Money } from "../../components/values.tsx"
import { useFormat } from "../../i18n/language.tsx"
import { useMay } from "../../shell/session.tsx"
import { useWalletText } from "./text.ts"
import { checkTopUp, type TopUp, topUpQuery } from "./top-up.tsx"

interface PayByQrProps {
  readonly topUp: TopUp
  /** When the answer with the seconds that are left came, in milliseconds of this clock. */
  readonly receivedAt: number
  readonly over: () => void
}

/** Under this the clock is shown as a warning. */
const SHORT_S = 120

export function PayByQr({ topUp, receivedAt, over }: PayByQrProps) {
  const text = useWalletText()
  const left = useCountdown(topUp.expires_in_s, receivedAt, over)
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
  const copy = async () => {
    try {
      await navigator.clipboard.write([new ClipboardItem({ "image/png": qrPng(qr.svg) })])
      toasts.done(text.copied)
    } catch {
      toasts.failed(text.copyFailed)
    }
  }
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

/** While payments are simulated, a link takes the place of scanning the code. */
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

/**
 * The seconds that are left of `seconds`, which the server said at `receivedAt` (milliseconds of this clock). Deadlines are
 * not compared, because the server's clock may differ from this one.
 */
function useCountdown(seconds: number, receivedAt: number, over: () => void): number {
  const until = receivedAt + seconds * 1_000
  const [now, setNow] = useState(() => Date.now())
  const left = Math.max(0, Math.ceil((until - now) / 1_000))
  const isOver = left === 0
  useEffect(() => {
    if (isOver) return undefined
    const ticking = setInterval(() => setNow(Date.now()), 1_000)
    return () => clearInterval(ticking)
  }, [isOver])
  useEffect(() => {
    if (isOver) over()
    // Only once, with the function of that moment.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [isOver])
  return left
}

/** 14:05. */
const minutesAndSeconds = (seconds: number): string =>
  `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`

const SIDE_PX = 1_024

/** The QR code as a picture that other apps can read: white around it, and large enough to be scanned from a gallery. */
const svgAddress = (svg: string): string =>
  // Some browsers cannot draw an image without a size of its own.
  `data:image/svg+xml,${encodeURIComponent(svg.replace("<svg ", `<svg width="${SIDE_PX}" height="${SIDE_PX}" `))}`

async function qrPng(svg: string): Promise<Blob> {
  const image = new Image()
  image.src = svgAddress(svg)
  await image.decode()
  const canvas = document.createElement("canvas")
  canvas.width = SIDE_PX
  canvas.height = SIDE_PX
  const context = canvas.getContext("2d")
  if (context === null) throw new Error("no canvas")
  context.fillStyle = "#ffffff"
  context.fillRect(0, 0, SIDE_PX, SIDE_PX)
  context.drawImage(image, 0, 0, SIDE_PX, SIDE_PX)
  return await new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob === null ? reject(new Error("no picture")) : resolve(blob)), "image/png")
  })
}

/** "I have paid": the payment provider is asked at once, and its answer is shown. Nothing for whose role does not pay. */
export function CheckPayment({ topUp: { id } }: { readonly topUp: TopUp }) {
  const text = useWalletText()
  const client = useQueryClient()
  const may = useMay()
  const check = useChange({
    mutationFn: () => checkTopUp(id),
    onSuccess: (topUp) => client.setQueryData(topUpQuery(id).queryKey, topUp),
  })
  if (!may("pay")) return null
  return (
    <div className="check-payment">
      <Button busy={check.isPending} onClick={() => check.mutate()}>
        {text.check}
      </Button>
      <p role="status">{check.isSuccess && check.data.status !== "paid" ? text.notYet : ""}</p>
      {check.error !== null && <ErrorState error={check.error} />}
    </div>
  )
}
