/** Names and values, one below the other: what a drawer tells about one thing. */
import type { ReactNode } from "react"

interface FactsProps {
  readonly title?: string
  readonly facts: readonly { readonly name: string; readonly value: ReactNode }[]
}

export const Facts = ({ title, facts }: FactsProps) => (
  <section className="facts">
    {title !== undefined && <h3>{title}</h3>}
    <dl>
      {facts.map(({ name, value }) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  </section>
)
