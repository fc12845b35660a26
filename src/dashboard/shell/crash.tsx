/** A page that throws leaves the frame standing, and says so. */
import { Component, type ReactNode } from "react"
import { Button } from "../components/button.tsx"
import { EmptyState } from "../components/empty-state.tsx"
import { useShellText } from "./text.ts"

interface CrashBoundaryProps {
  /** Where it happened: another page is another try. */
  readonly place: string
  readonly children: ReactNode
}

export class CrashBoundary extends Component<CrashBoundaryProps, { readonly crashedAt: string | undefined }> {
  override state: { readonly crashedAt: string | undefined } = { crashedAt: undefined }

  static getDerivedStateFromError() {
    return { crashedAt: location.pathname }
  }

  override render() {
    return this.state.crashedAt === location.pathname ? <Crashed /> : this.props.children
  }
}

function Crashed() {
  const text = useShellText()
  return (
    <EmptyState
      title={text.crashed}
      action={
        <Button kind="primary" onClick={() => location.reload()}>
          {text.reload}
        </Button>
      }
    >
      {text.crashedHint}
    </EmptyState>
  )
}
