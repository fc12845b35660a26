/** Passkeys of the account: added with the device at hand, named, and removed. */
import { useQuery } from "@tanstack/react-query"
import { useState } from "react"
import { api, unwrap } from "../../api/client.ts"
import { canUsePasskeys, deviceOf, makePasskey, passkeysQuery, proofOf, usePasskeyError } from "../../api/browser.ts"
import { secondFactorQuery, useChange } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { FormDialog } from "../../components/dialog.tsx"
import { ErrorState, useToasts } from "../../components/feedback.tsx"
import { formText, PasswordField, Refusal, TextField } from "../../components/form.tsx"
import { Card } from "../../components/layout.tsx"
import { typedLine } from "../../i18n/figures.ts"
import { useAgo, useFormat } from "../../i18n/language.tsx"
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

const MOST = 10
const NAME = /^(?=.*\S).{1,60}$/u

type Passkey = Awaited<ReturnType<NonNullable<typeof passkeysQuery.queryFn>>>["data"][number]
type Open =
  | { readonly dialog: "add" }
  | { readonly dialog: "rename" | "remove"; readonly passkey: Passkey }
  | { readonly dialog: "codes"; readonly codes: readonly string[] }

export function Passkeys() {
  const text = useSecondFactorText()
  const format = useFormat()
  const passkeys = useQuery(passkeysQuery)
  const { email_proved: isProved } = useAccount()
  const [open, setOpen] = useState<Open>()
  const close = () => setOpen(undefined)
  const { data: rows = [], origin = null } = passkeys.data ?? {}
  const isHere = canUsePasskeys(origin)
  const reason = origin === null ? text.passkeysUnavailable : text.passkeysAt(origin)
  return (
    <Card title={text.passkeys}>
      <div className="settings-form">
        <p className="settings-intro">{text.passkeysIntro}</p>
        {passkeys.data !== undefined && !isHere && (
          <p className="settings-warning">{origin === location.origin ? text.passkeysUnsupported : reason}</p>
        )}
        {isHere && !isProved && <p className="settings-warning">{text.unproved}</p>}
        {passkeys.error !== null && <ErrorState error={passkeys.error} retry={passkeys.refetch} />}
        {rows.length > 0 && (
          <ul className="passkeys">
            {rows.map((passkey) => (
              <li key={passkey.id}>
                <span>
                  {passkey.name}
                  <small>
                    {text.passkeyMade(format.date(passkey.created_at))},{" "}
                    {passkey.last_used_at === null ? text.passkeyUnused : <Used time={passkey.last_used_at} />}
                  </small>
                </span>
                <span className="passkey-actions">
                  <Button
                    size="small"
                    aria-label={text.renameOf(passkey.name)}
                    onClick={() => setOpen({ dialog: "rename", passkey })}
                  >
                    {text.rename}
                  </Button>
                  <Button
                    size="small"
                    aria-label={text.removeOf(passkey.name)}
                    onClick={() => setOpen({ dialog: "remove", passkey })}
                  >
                    {text.remove}
                  </Button>
                </span>
              </li>
            ))}
          </ul>
        )}
        {rows.length >= MOST && <p className="settings-intro">{text.passkeysFull}</p>}
        <div className="settings-actions">
          <Button
            onClick={() => setOpen({ dialog: "add" })}
            disabled={!isHere || !isProved || passkeys.data === undefined || rows.length >= MOST}
          >
            {text.addPasskey}
          </Button>
        </div>
      </div>
      {open?.dialog === "add" && <Add onClose={close} onCodes={(codes) => setOpen({ dialog: "codes", codes })} />}
      {open?.dialog === "rename" && <Rename passkey={open.passkey} onClose={close} />}
      {open?.dialog === "remove" && <Remove passkey={open.passkey} onClose={close} />}
      {open?.dialog === "codes" && <Codes codes={open.codes} onClose={close} />}
    </Card>
  )
}

function Used({ time }: { readonly time: string }) {
  return useSecondFactorText().passkeyUsed(useAgo(time))
}

interface AddProps {
  readonly onClose: () => void
  readonly onCodes: (codes: readonly string[]) => void
}

function Add({ onClose, onCodes }: AddProps) {
  const text = useSecondFactorText()
  const toasts = useToasts()
  const changed = useFactorsChanged()
  const passwordError = usePasswordError()
  const passkeyError = usePasskeyError()
  const factor = useQuery(secondFactorQuery)
  const hasPasskey = useHasPasskey()
  const hasFactor = hasPasskey || (factor.data !== undefined && factor.data.since !== null)
  const { browser, system } = deviceOf(navigator.userAgent)
  const [nameError, setNameError] = useState<string>()
  const add = useChange({
    mutationFn: async ({ name, ...typed }: Typed & { readonly name: string }) => {
      const proof = hasFactor ? await proofOf(typed, hasPasskey) : { password: typed.password }
      const options = await unwrap(api.account.passkeys.options.post(proof))
      return await unwrap(api.account.passkeys.post({ name, passkey: await makePasskey(options) }))
    },
    onSuccess: ({ recovery_codes: codes }) => {
      toasts.done(text.passkeyAdded)
      void changed()
      if (codes === null) onClose()
      else onCodes(codes)
    },
  })
  const trouble = passkeyError(add.error)
  const wrong = passwordError(add.error)
  const submit = (form: FormData) => {
    const name = typedLine(formText(form, "name"))
    const isNamed = NAME.test(name)
    setNameError(isNamed ? undefined : text.passkeyNameWrong)
    if (isNamed)
      add.mutate({ name, password: formText(form, "password"), code: hasFactor ? formText(form, "code") : "" })
  }
  return (
    <FormDialog
      title={text.addPasskey}
      submit={text.next}
      busy={add.isPending}
      error={wrong === undefined && trouble === undefined ? add.error : null}
      onClose={onClose}
      onSubmit={submit}
    >
      {trouble !== undefined && <Refusal>{trouble}</Refusal>}
      <p>{text.addPasskeyIntro}</p>
      <TextField
        label={text.passkeyName}
        name="name"
        defaultValue={[browser, system].filter((word) => word !== undefined).join(", ")}
        maxLength={60}
        required
        error={nameError}
      />
      <PasswordField
        label={text.password}
        name="password"
        autoComplete="current-password"
        required
        error={hasFactor ? undefined : wrong}
      />
      {hasFactor && (
        <CodeField
          error={wrong === undefined ? undefined : text.wrongProof}
          label={text.anyCode}
          orPasskey={hasPasskey}
        />
      )}
    </FormDialog>
  )
}

interface OneProps {
  readonly passkey: Passkey
  readonly onClose: () => void
}

function Rename({ passkey, onClose }: OneProps) {
  const text = useSecondFactorText()
  const toasts = useToasts()
  const changed = useFactorsChanged()
  const [nameError, setNameError] = useState<string>()
  const rename = useChange({
    mutationFn: (name: string) => unwrap(api.account.passkeys({ id: passkey.id }).patch({ name })),
    onSuccess: () => {
      toasts.done(text.renamed)
      void changed()
      onClose()
    },
  })
  return (
    <FormDialog
      title={text.renameOf(passkey.name)}
      submit={text.save}
      busy={rename.isPending}
      error={rename.error}
      onClose={onClose}
      onSubmit={(form) => {
        const name = typedLine(formText(form, "name"))
        const isNamed = NAME.test(name)
        setNameError(isNamed ? undefined : text.passkeyNameWrong)
        if (isNamed) rename.mutate(name)
      }}
    >
      <TextField
        label={text.passkeyName}
        name="name"
        defaultValue={passkey.name}
        maxLength={60}
        required
        error={nameError}
      />
    </FormDialog>
  )
}

function Remove({ passkey, onClose }: OneProps) {
  const text = useSecondFactorText()
  const toasts = useToasts()
  const changed = useFactorsChanged()
  const remove = useChange({
    mutationFn: async (typed: Typed) =>
      await unwrap(api.account.passkeys({ id: passkey.id }).delete(await proofOf(typed, true))),
    onSuccess: () => {
      toasts.done(text.passkeyRemoved)
      onClose()
      void changed()
    },
  })
  const intro = text.removePasskeyIntro(passkey.name)
  return <ProofDialog title={text.removePasskey} intro={intro} change={remove} onClose={onClose} danger />
}
