import { CircleAlert } from "lucide-react"
import { ApiFailure } from "../api/failure.ts"
import { useFormat } from "../i18n/format.ts"
import { useLanguage } from "../i18n/language.tsx"
import { Button } from "./button.tsx"
import { CopyButton } from "./copy-button.tsx"
import { indonesianFor } from "./failure-words.ts"
import { useComponentText } from "./text.ts"

/** What went wrong, with what a person needs who asks for help about it. */
export function ErrorState({ error, retry }: { readonly error: unknown; readonly retry?: () => unknown }) {
  const text = useComponentText()
  return (
    <div className="error-state" role="alert">
      <CircleAlert className="error-state-icon" aria-hidden="true" />
      <div className="error-state-body">
        <ErrorWords error={error} />
        {retry !== undefined && (
          <Button size="small" onClick={() => void retry()}>
            {text.tryAgain}
          </Button>
        )}
      </div>
    </div>
  )
}

function ErrorWords({ error }: { readonly error: unknown }) {
  const text = useComponentText()
  const format = useFormat()
  const { language } = useLanguage()
  if (!(error instanceof ApiFailure)) return <p className="error-state-message">{text.unexpected}</p>
  if (error.body === undefined) {
    return (
      <>
        <p className="error-state-message">{text.unreachable}</p>
        <p className="error-state-hint">{text.unreachableHint}</p>
      </>
    )
  }
  const { error: message, code, request_id: requestId, hint } = error.body
  const translated = language === "id" ? indonesianFor(code) : undefined
  return (
    <>
      <p className="error-state-message" lang={translated === undefined ? "en" : undefined}>
        {translated ?? message}
      </p>
      {translated !== undefined && (
        <p className="error-state-hint" lang="en">
          {message}
        </p>
      )}
      {hint !== undefined && (
        <p className="error-state-hint" lang="en">
          {hint}
        </p>
      )}
      {error.retryAfterS !== undefined && (
        <p className="error-state-hint">{text.waitSeconds(format.number(error.retryAfterS))}</p>
      )}
      <dl className="error-state-facts">
        <dt>{text.code}</dt>
        <dd>
          <code>{code}</code>
        </dd>
        <dt>{text.requestId}</dt>
        <dd>
          <code>{requestId}</code>
          <CopyButton text={requestId} what={text.requestId} />
        </dd>
      </dl>
    </>
  )
}
