/** What a change of second factors has in common: the proof that is asked for, and the recovery codes that may come of it. */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { passkeysQuery, usePasskeyError } from "../../api/passkeys.ts"
import { secondFactorQuery } from "../../api/queries.ts"
import { Button, CopyButton } from "../../components/button.tsx"
import { Dialog, FormDialog } from "../../components/dialog.tsx"
import { formText, PasswordField, TextField } from "../../components/form.tsx"
import { usePasswordError } from "./security.tsx"
import { useSecondFactorText } from "./second-factor-text.ts"

export interface Typed {
  readonly password: string
  /** Empty where a passkey is to be used instead. */
  readonly code: string
}

/** Whether the account has a passkey that this page can use. */
export function useHasPasskey(): boolean {
  const { data } = useQuery(passkeysQuery)
  return data !== undefined && data.data.length > 0
}

/** What shows second factors and sessions is read anew. */
export function useFactorsChanged(): () => Promise<unknown> {
  const client = useQueryClient()
  return () =>
    Promise.all(
      [secondFactorQuery.queryKey, passkeysQuery.queryKey, ["sessions"]].map((queryKey) =>
        client.invalidateQueries({ queryKey }),
      ),
    )
}

interface ProofDialogProps {
  readonly title: string
  /** The word on the button; the title unless it is said. */
  readonly submit?: string
  readonly intro: string
  readonly change: {
    readonly isPending: boolean
    readonly error: Error | null
    readonly mutate: (proof: Typed) => void
  }
  readonly onClose: () => void
  readonly danger?: boolean
}

/**
 * Asks for the password and a code, or a passkey. The server does not tell which of them was wrong before the other was right.
 */
export function ProofDialog({ title, submit = title, intro, change, onClose, danger = false }: ProofDialogProps) {
  const text = useSecondFactorText()
  const hasPasskey = useHasPasskey()
  const trouble = usePasskeyError()(change.error)
  const wrong = usePasswordError()(change.error) === undefined ? trouble : text.wrongProof
  return (
    <FormDialog
      title={title}
      submit={submit}
      danger={danger}
      busy={change.isPending}
      error={wrong === undefined ? change.error : null}
      onClose={onClose}
      onSubmit={(form) => change.mutate({ password: formText(form, "password"), code: formText(form, "code") })}
    >
      <p>{intro}</p>
      <PasswordField label={text.password} name="password" autoComplete="current-password" required />
      <CodeField error={wrong} label={text.anyCode} orPasskey={hasPasskey} />
    </FormDialog>
  )
}

interface CodeFieldProps {
  readonly error: string | undefined
  readonly label: string
  /** Left empty, a passkey is used. */
  readonly orPasskey?: boolean
}

export function CodeField({ error, label, orPasskey = false }: CodeFieldProps) {
  const text = useSecondFactorText()
  return (
    <TextField
      label={label}
      optional={orPasskey}
      hint={orPasskey ? text.orPasskey : undefined}
      name="code"
      autoComplete="one-time-code"
      autoCapitalize="characters"
      spellCheck={false}
      maxLength={40}
      required={!orPasskey}
      error={error}
    />
  )
}

/** Shown this once. */
export function Codes({ codes, onClose }: { readonly codes: readonly string[]; readonly onClose: () => void }) {
  const text = useSecondFactorText()
  const file = `data:text/plain;charset=utf-8,${encodeURIComponent(`Loket\n${codes.join("\n")}\n`)}`
  return (
    <Dialog
      title={text.codes}
      insistent
      onClose={onClose}
      footer={
        <>
          <a className="button button-secondary button-medium" href={file} download="loket-recovery-codes.txt">
            {text.download}
          </a>
          <Button kind="primary" onClick={onClose}>
            {text.kept}
          </Button>
        </>
      }
    >
      <p>{text.codesIntro}</p>
      <ul className="factor-codes">
        {codes.map((code) => (
          <li key={code}>
            <code>{code}</code>
          </li>
        ))}
      </ul>
      <p className="settings-copied">
        {text.copyAll}
        <CopyButton text={codes.join("\n")} what={text.codes} />
      </p>
    </Dialog>
  )
}
