import { useComponentText } from "./text.ts"

/** The shape of what is on its way. `lines`: how many rows of text it will be about. */
export function Skeleton({ lines = 1 }: { readonly lines?: number }) {
  const text = useComponentText()
  return (
    <div className="skeleton" role="status" aria-label={text.loading}>
      {Array.from({ length: lines }, (_, line) => (
        <span key={line} className="skeleton-line" />
      ))}
    </div>
  )
}
