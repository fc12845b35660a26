/** Forms and their fields: a label above, a hint or an error below, tied together for screen readers. Choices and switches too. */
import { Switch as BaseSwitch } from "@base-ui/react/switch"
import { CircleAlert, Eye, EyeOff } from "lucide-react"
import { type ComponentProps, type FormEvent, type ReactNode, type SelectHTMLAttributes, useId, useState } from "react"
import { smallReading } from "../i18n/figures.ts"
import { useFormat, useLanguage } from "../i18n/language.tsx"
import { Button, IconButton } from "./button.tsx"
import { intoSight } from "./feedback.tsx"
import { useComponentText } from "./text.ts"

export interface FieldLook {
  readonly label: string
  readonly hint?: ReactNode
  readonly error?: string | undefined
  readonly optional?: boolean
}

interface FieldProps extends FieldLook {
  readonly children: (attributes: {
    readonly id: string
    readonly "aria-describedby": string | undefined
    readonly "aria-invalid": true | undefined
  }) => ReactNode
}

/** The frame of any field. The control must take the attributes that `children` is called with. */
export function Field({ label, hint, error, optional = false, children }: FieldProps) {
  const text = useComponentText()
  const id = useId()
  const note = error ?? hint
  return (
    <div className="field">
      <label htmlFor={id}>
        {label}
        {optional && <span className="field-optional"> ({text.optional})</span>}
      </label>
      {children({
        id,
        "aria-describedby": note === undefined ? undefined : `${id}-note`,
        "aria-invalid": error === undefined ? undefined : true,
      })}
      {note !== undefined && (
        <p id={`${id}-note`} className={error === undefined ? "field-hint" : "field-error"}>
          {note}
        </p>
      )}
    </div>
  )
}

type InputProps = Omit<ComponentProps<"input">, "id">

/** Why the browser takes a value for wrong, in the page's language: its own words are in the browser's. */
function useFault(): (input: HTMLInputElement) => string {
  const text = useComponentText()
  return ({ validity, type, validationMessage }) => {
    if (validity.valueMissing) return text.missing
    if (validity.typeMismatch) return type === "email" ? text.emailWrong : text.addressWrong
    return validity.customError ? validationMessage : text.valueWrong
  }
}

/** In the place of an amount's hint where the amount may be meant a thousand times as large; undefined where nothing is doubtful. */
function useReading(amount: unknown): string | undefined {
  const [text, format] = [useComponentText(), useFormat()]
  const { language } = useLanguage()
  const read = typeof amount === "string" ? smallReading(amount, language) : undefined
  return read === undefined ? undefined : text.readAs(format.rupiah(read, "exact"))
}

/**
 * `before` and `after` stand inside the frame: "Rp", a unit, a button. A form without `noValidate` is not sent while a field that is
 * `required`, or of a type, is wrong; the field says why.
 */
export function TextField({
  label,
  hint,
  error,
  optional,
  before,
  after,
  onInput,
  ...input
}: FieldLook & InputProps & { readonly before?: ReactNode; readonly after?: ReactNode }) {
  const faultOf = useFault()
  const [fault, setFault] = useState<string>()
  const reading = useReading(before === "Rp" ? input.value : undefined)
  const refused = (event: FormEvent<HTMLInputElement>) => {
    const { currentTarget: field } = event
    event.preventDefault()
    setFault(faultOf(field))
    if (field.form?.querySelector("input:invalid") === field) field.focus()
  }
  return (
    <Field label={label} hint={reading ?? hint} error={fault ?? error} {...(optional && { optional })}>
      {(attributes) => (
        <span className="input">
          {before !== undefined && <span className="input-affix">{before}</span>}
          <input
            {...input}
            {...attributes}
            onInvalid={refused}
            onInput={(event) => {
              setFault(undefined)
              onInput?.(event)
            }}
          />
          {after !== undefined && <span className="input-affix">{after}</span>}
        </span>
      )}
    </Field>
  )
}

export function PasswordField(props: Omit<FieldLook & InputProps, "type">) {
  const text = useComponentText()
  const [shown, setShown] = useState(false)
  return (
    <TextField
      {...props}
      type={shown ? "text" : "password"}
      spellCheck={false}
      autoCapitalize="none"
      after={
        <IconButton
          size="small"
          label={shown ? text.hide : text.show}
          aria-pressed={shown}
          onClick={() => setShown(!shown)}
        >
          {shown ? <EyeOff /> : <Eye />}
        </IconButton>
      }
    />
  )
}

interface Option {
  readonly value: string
  readonly label: string
}

/** The browser's own list, which works best on a phone. */
export function SelectField({
  label,
  hint,
  error,
  optional,
  options,
  ...select
}: FieldLook & Omit<SelectHTMLAttributes<HTMLSelectElement>, "id"> & { readonly options: readonly Option[] }) {
  return (
    <Field label={label} hint={hint} error={error} {...(optional && { optional })}>
      {(attributes) => (
        <span className="input input-select">
          <select {...select} {...attributes}>
            {options.map(({ value, label: name }) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </span>
      )}
    </Field>
  )
}

/** The text in a form's field of this name. */
export function formText(form: FormData, name: string): string {
  const value = form.get(name)
  return typeof value === "string" ? value : ""
}

/** Why a form was refused: shown at its head and read out at once. */
export const Refusal = ({ children }: { readonly children: ReactNode }) => (
  <p className="refusal" role="alert" ref={intoSight}>
    <CircleAlert aria-hidden="true" />
    <span>{children}</span>
  </p>
)

interface ChoiceProps<Value extends string> {
  readonly label: string
  /** The meaning of the chosen value. */
  readonly hint?: string
  readonly values: readonly Value[]
  readonly chosen: Value
  readonly nameOf: (value: Value) => string
  readonly onChoose: (value: Value) => void
}

/** A choice of one value, with all values visible. */
export function Choice<Value extends string>({ label, hint, values, chosen, nameOf, onChoose }: ChoiceProps<Value>) {
  const name = useId()
  return (
    <fieldset className="choice" aria-describedby={hint === undefined ? undefined : `${name}-hint`}>
      <legend>{label}</legend>
      <div className="choice-options">
        {values.map((value) => (
          <label key={value}>
            <input type="radio" name={name} checked={value === chosen} onChange={() => onChoose(value)} />
            <span>{nameOf(value)}</span>
          </label>
        ))}
      </div>
      {hint !== undefined && (
        <p className="field-hint" id={`${name}-hint`} aria-live="polite">
          {hint}
        </p>
      )}
    </fieldset>
  )
}

interface SwitchProps {
  readonly label: string
  readonly checked: boolean
  readonly onChange: (checked: boolean) => void
  readonly disabled?: boolean
}

/** A setting that is on or off, and takes effect at once. */
export const Switch = ({ label, checked, onChange, disabled = false }: SwitchProps) => (
  <label className="switch-label">
    <BaseSwitch.Root className="switch" checked={checked} onCheckedChange={onChange} disabled={disabled}>
      <BaseSwitch.Thumb className="switch-thumb" />
    </BaseSwitch.Root>
    {label}
  </label>
)

/** Whether the server takes it as a new password: it counts code points, so that an emoji counts once. */
export const isNewPassword = (text: string): boolean => /^[^]{10,256}$/u.test(text)

export interface Credentials {
  readonly email: string
  readonly password: string
}

interface AuthFormProps {
  readonly text: Readonly<Record<"title" | "intro" | "email" | "password" | "submit", string>>
  readonly newPassword?: { readonly hint: string; readonly error: string | undefined }
  /** What was typed before. */
  readonly email?: string | undefined
  /** What went wrong, above the fields. */
  readonly error: ReactNode
  readonly busy: boolean
  /** Not called while the form is busy. */
  readonly onSubmit: (credentials: Credentials) => void
  /** Below the button. */
  readonly children?: ReactNode
  readonly foot: ReactNode
}

/** The form of the sign-in and sign-up pages: an e-mail address and a password, alone in the middle of the page. */
export function AuthForm({ text, newPassword, email, error, busy, onSubmit, children, foot }: AuthFormProps) {
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    if (busy) return
    const form = new FormData(event.currentTarget)
    onSubmit({ email: formText(form, "email"), password: formText(form, "password") })
  }
  return (
    <>
      <title>{`${text.title} · Loket`}</title>
      <div className="auth">
        <h1>{text.title}</h1>
        <p className="auth-intro">{text.intro}</p>
        <form className="card auth-form" onSubmit={submit}>
          {error}
          <TextField
            label={text.email}
            name="email"
            type="email"
            autoComplete="username"
            maxLength={254}
            required
            autoFocus
            defaultValue={email}
          />
          <PasswordField
            label={text.password}
            name="password"
            autoComplete={newPassword === undefined ? "current-password" : "new-password"}
            maxLength={256}
            required
            {...newPassword}
          />
          <Button type="submit" kind="primary" busy={busy}>
            {text.submit}
          </Button>
          {children}
        </form>
        <p className="auth-foot">{foot}</p>
      </div>
    </>
  )
}
