/** Short notices that come and go by themselves: that something was done. What went wrong stays where it went wrong. */
import { CircleAlert, CircleCheck, X } from "lucide-react"
import { createContext, type ReactNode, useCallback, useContext, useMemo, useRef, useState } from "react"
import { IconButton } from "./button.tsx"
import { useComponentText } from "./text.ts"

interface Notice {
  readonly id: number
  readonly message: string
  readonly tone: "good" | "bad"
}

interface Toasts {
  readonly done: (message: string) => void
  readonly failed: (message: string) => void
}

const SHOWN_MS = 6_000

const Context = createContext<Toasts>({ done() {}, failed() {} })

export const useToasts = (): Toasts => useContext(Context)

export function ToastProvider({ children }: { readonly children: ReactNode }) {
  const text = useComponentText()
  const [notices, setNotices] = useState<readonly Notice[]>([])
  const lastId = useRef(0)
  const dismiss = useCallback((id: number) => setNotices((shown) => shown.filter((notice) => notice.id !== id)), [])
  const toasts = useMemo<Toasts>(() => {
    const show = (message: string, tone: Notice["tone"]) => {
      const id = ++lastId.current
      setNotices((shown) => [...shown, { id, message, tone }])
      setTimeout(() => dismiss(id), SHOWN_MS)
    }
    return { done: (message) => show(message, "good"), failed: (message) => show(message, "bad") }
  }, [dismiss])
  return (
    <Context value={toasts}>
      {children}
      <section className="toasts" aria-label={text.notifications} aria-live="polite">
        {notices.map(({ id, message, tone }) => (
          <div key={id} className={`toast toast-${tone}`}>
            {tone === "good" ? <CircleCheck aria-hidden="true" /> : <CircleAlert aria-hidden="true" />}
            <p>{message}</p>
            <IconButton size="small" label={text.dismiss} onClick={() => dismiss(id)}>
              <X />
            </IconButton>
          </div>
        ))}
      </section>
    </Context>
  )
}
