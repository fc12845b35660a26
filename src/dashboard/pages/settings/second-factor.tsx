/** Two-step verification: an authenticator app that is set up with a QR code, and recovery codes, which are shown once. */
import { useQuery } from "@tanstack/react-query"
import { useState } from "react"
import { secondFactorQuery, useChange } from "../../api/queries.ts"
import { api, unwrap } from "../../api/client.ts"
import { proofOf } from "../../api/browser.ts"
import { Button, CopyButton } from "../../components/button.tsx"
import { FormDialog } from "../../components/dialog.tsx"
import { ErrorState, useToasts } from "../../components/feedback.tsx"
import { formText, PasswordField } from "../../components/form.tsx"
import { Card } from "../../components/layout.tsx"
import { Tag } from "../../components/values.tsx"
import { useFormat } from "../../i18n/language.tsx"
import { useAccount } from "../../shell/session.tsx"
import {
  CodeField,
  Codes,
  ProofDialog,
  type Typed,
  useFactorsChanged,
  useHasPasskey,
  useSecondFactorText,
} from "./proof.tsx"
import { usePasswordError } from "./security.tsx"

type Step = "password" | "codes" | "renew" | "remove"

export function SecondFactor() {
  const text = useSecondFactorText()
  const format = useFormat()
  const factor = useQuery(secondFactorQuery)
  const hasPasskey = useHasPasskey()
  const { email_proved: isProved } = useAccount()
  const [open, setOpen] = useState<Step>()
  const [codes, setCodes] = useState<readonly string[]>()
  const refresh = useFactorsChanged()
  const show = (shown: readonly string[]) => {
    setCodes(shown)
    setOpen("codes")
    void refresh()
  }
  const close = () => setOpen(undefined)
  const { since = null, recovery_codes_left: left = 0, needed = false } = factor.data ?? {}
  const hasApp = since !== null
  const isOn = hasApp || hasPasskey
  return (
    <Card
      title={text.title}
      action={factor.data && <Tag tone={isOn ? "good" : "neutral"}>{isOn ? text.on : text.off}</Tag>}
    >
      <div className="settings-form" id="second-factor">
        <p className="settings-intro">
          {hasApp ? text.introOn(format.date(since)) : hasPasskey ? text.introPasskey : text.intro}
        </p>
        {needed && <p className="settings-warning">{text.needed}</p>}
        {!isProved && <p className="settings-warning">{text.unproved}</p>}
        {isOn && left < 4 && <p className="settings-warning">{text.few(format.number(left))}</p>}
        {factor.error !== null && <ErrorState error={factor.error} retry={factor.refetch} />}
        <div className="settings-actions">
          {!hasApp && (
            <Button onClick={() => setOpen("password")} disabled={!isProved || factor.data === undefined}>
              {hasPasskey ? text.addApp : text.setUp}
            </Button>
          )}
          {isOn && <Button onClick={() => setOpen("renew")}>{text.renew}</Button>}
          {hasApp && (
            <Button kind="quiet" onClick={() => setOpen("remove")}>
              {hasPasskey ? text.removeApp : text.turnOff}
            </Button>
          )}
        </div>
      </div>
      {open === "password" && <SetUp onClose={close} onCodes={show} />}
      {open === "renew" && <Renew onClose={close} onCodes={show} />}
      {open === "remove" && <Remove onClose={close} onDone={refresh} />}
      {open === "codes" && codes !== undefined && <Codes codes={codes} onClose={close} />}
    </Card>
  )
}

interface StepProps {
  readonly onClose: () => void
  readonly onCodes: (codes: readonly string[]) => void
}

/** The password first, then the app and its first code. */
function SetUp({ onClose, onCodes }: StepProps) {
  const text = useSecondFactorText()
  const passwordError = usePasswordError()
  const hasPasskey = useHasPasskey()
  const begin = useChange({
    mutationFn: async (proof: Typed) =>
      await unwrap(
        api.account["second-factor"].post(hasPasskey ? await proofOf(proof, true) : { password: proof.password }),
      ),
  })
  const confirm = useChange({
    mutationFn: (code: string) => unwrap(api.account["second-factor"].confirm.post({ code })),
    onSuccess: ({ recovery_codes: codes }) => onCodes(codes),
  })
  const app = begin.data
  const wrong = passwordError(begin.error)
  if (app === undefined && hasPasskey)
    return (
      <ProofDialog title={text.addApp} submit={text.next} intro={text.addAppIntro} change={begin} onClose={onClose} />
    )
  if (app === undefined)
    return (
      <FormDialog
        title={text.setUp}
        submit={text.next}
        busy={begin.isPending}
        error={wrong === undefined ? begin.error : null}
        onClose={onClose}
        onSubmit={(form) => begin.mutate({ password: formText(form, "password"), code: "" })}
      >
        <PasswordField label={text.password} name="password" autoComplete="current-password" required error={wrong} />
      </FormDialog>
    )
  const wrongCode = passwordError(confirm.error) === undefined ? undefined : text.wrong
  return (
    <FormDialog
      key="code"
      title={text.setUp}
      submit={text.turnOn}
      busy={confirm.isPending}
      error={wrongCode === undefined ? confirm.error : null}
      onClose={onClose}
      onSubmit={(form) => confirm.mutate(formText(form, "code"))}
    >
      <p>{text.scan}</p>
      <img className="factor-qr" alt={text.qr} src={`data:image/svg+xml,${encodeURIComponent(app.qr_svg)}`} />
      <p className="settings-copied">
        <code className="factor-secret">{app.secret}</code>
        <CopyButton text={app.secret} what={text.secret} />
      </p>
      <CodeField error={wrongCode} label={text.code} />
    </FormDialog>
  )
}

function Renew({ onClose, onCodes }: StepProps) {
  const text = useSecondFactorText()
  const hasPasskey = useHasPasskey()
  const renew = useChange({
    mutationFn: async (proof: Typed) =>
      await unwrap(api.account["second-factor"]["recovery-codes"].post(await proofOf(proof, hasPasskey))),
    onSuccess: ({ recovery_codes: codes }) => onCodes(codes),
  })
  return <ProofDialog title={text.renew} intro={text.renewIntro} change={renew} onClose={onClose} />
}

function Remove({ onClose, onDone }: { readonly onClose: () => void; readonly onDone: () => unknown }) {
  const text = useSecondFactorText()
  const toasts = useToasts()
  const hasPasskey = useHasPasskey()
  const remove = useChange({
    mutationFn: async (proof: Typed) =>
      await unwrap(api.account["second-factor"].delete(await proofOf(proof, hasPasskey))),
    onSuccess: () => {
      toasts.done(hasPasskey ? text.appRemoved : text.turnedOff)
      onClose()
      onDone()
    },
  })
  const [title, intro] = hasPasskey ? [text.removeApp, text.removeAppIntro] : [text.turnOff, text.turnOffIntro]
  return <ProofDialog title={title} intro={intro} change={remove} onClose={onClose} danger />
}
