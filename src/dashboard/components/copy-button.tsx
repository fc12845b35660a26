/** Copies a text, and says so where it was pressed and to a screen reader. */
import { Check, Copy, X } from "lucide-react"
import { useEffect, useState } from "react"
import { IconButton } from "./button.tsx"
import { useComponentText } from "./text.ts"

const SHOWN_MS = 2_000

interface CopyButtonProps {
  readonly text: string
  /** What is copied, for the button's name: "API key". */
  readonly what: string
}

export function CopyButton({ text: copied, what }: CopyButtonProps) {
  const text = useComponentText()
  const [outcome, setOutcome] = useState<"copied" | "failed">()
  useEffect(() => {
    if (outcome === undefined) return undefined
    const timer = setTimeout(() => setOutcome(undefined), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [outcome])
  const copy = () =>
    navigator.clipboard.writeText(copied).then(
      () => setOutcome("copied"),
      () => setOutcome("failed"),
    )
  return (
    <>
      <IconButton
        size="small"
        label={outcome === "copied" ? text.copied : `${text.copy} ${what}`}
        onClick={() => void copy()}
      >
        {outcome === undefined ? (
          <Copy />
        ) : outcome === "copied" ? (
          <Check className="is-good" />
        ) : (
          <X className="is-bad" />
        )}
      </IconButton>
      <span className="visually-hidden" role="status">
        {outcome === "copied" ? text.copied : outcome === "failed" ? text.copyFailed : ""}
      </span>
    </>
  )
}
