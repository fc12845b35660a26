/** The one form of a page for visitors: alone in the middle, with the product's name above. */
import { CircleAlert } from "lucide-react"
import type { FormEvent, ReactNode } from "react"

interface AuthFormProps {
  readonly title: string
  readonly intro: string
  readonly onSubmit: (event: FormEvent<HTMLFormElement>) => void
  readonly children: ReactNode
  readonly foot: ReactNode
}

export const AuthForm = ({ title, intro, onSubmit, children, foot }: AuthFormProps) => (
  <>
    <title>{`${title} · Loket`}</title>
    <div className="auth">
      <h1>{title}</h1>
      <p className="auth-intro">{intro}</p>
      <form className="card auth-form" onSubmit={onSubmit}>
        {children}
      </form>
      <p className="auth-foot">{foot}</p>
    </div>
  </>
)

/** Why it was refused, at the head of the form, read out at once. */
export const Refusal = ({ children }: { readonly children: ReactNode }) => (
  <p className="refusal" role="alert">
    <CircleAlert aria-hidden="true" />
    <span>{children}</span>
  </p>
)
