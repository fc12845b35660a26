/** A key's secret, this once. It is nowhere but in this dialog, and gone when that closes. */
import { ShieldAlert } from "lucide-react"
import { Button, ButtonLink } from "../../components/button.tsx"
import { CopyButton } from "../../components/copy-button.tsx"
import { Dialog } from "../../components/dialog.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useKeysText } from "./text.ts"

export interface Secret {
  readonly key: string
  readonly name: string
  /** Of a rotation: when the secret before it ends, or null when it has. */
  readonly previousUntil?: string | null
}

export function SecretDialog({
  secret,
  onClose,
}: {
  readonly secret: Secret | undefined
  readonly onClose: () => void
}) {
  const text = useKeysText()
  const format = useFormat()
  const until = secret?.previousUntil
  return (
    <Dialog
      open={secret !== undefined}
      title={text.secretTitle}
      onClose={onClose}
      insistent
      footer={
        <>
          <ButtonLink to="/quick-start">{text.toQuickStart}</ButtonLink>
          <Button kind="primary" onClick={onClose}>
            {text.secretKept}
          </Button>
        </>
      }
    >
      {secret !== undefined && (
        <>
          <p className="key-secret-name">{secret.name}</p>
          <div className="key-secret">
            <code>{secret.key}</code>
            <CopyButton text={secret.key} what={text.secret} />
          </div>
          <p className="key-notice">
            <ShieldAlert aria-hidden="true" />
            <span>{text.secretOnce}</span>
          </p>
          {until !== undefined && <p>{until === null ? text.oldEnded : text.oldUntil(format.dateTime(until))}</p>}
        </>
      )}
    </Dialog>
  )
}
