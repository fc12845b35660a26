/**
 * Dialogs and drawers, on the browser's own modal dialog: it keeps the focus inside, makes the rest inert, closes with
 * Escape and a press outside, and gives the focus back. The focus begins at what is marked `data-autofocus`, else at the
 * first thing that takes it; React's own `autoFocus` comes too early for a modal dialog.
 */
import { X } from "lucide-react"
import { type MouseEvent, type ReactNode, useEffect, useId, useRef } from "react"
import { IconButton } from "./button.tsx"
import { useComponentText } from "./text.ts"

interface DialogProps {
  readonly open: boolean
  readonly title: string
  readonly children: ReactNode
  /** Buttons, the main one last. */
  readonly footer?: ReactNode
  /** It is to be closed: the owner sets `open`. */
  readonly onClose: () => void
  /** A press outside or Escape does not close it: for what is shown once. */
  readonly insistent?: boolean
}

/** In the middle; on a phone from below. */
export const Dialog = (props: DialogProps) => <Modal {...props} kind="dialog" />

/** From the side, over the page that it tells more about; on a phone over all of it. */
export const Drawer = (props: DialogProps) => <Modal {...props} kind="drawer" />

function Modal({
  open,
  title,
  children,
  footer,
  onClose,
  insistent = false,
  kind,
}: DialogProps & { readonly kind: "dialog" | "drawer" }) {
  const text = useComponentText()
  const titleId = useId()
  const element = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const dialog = element.current
    if (dialog === null || dialog.open === open) return
    if (open) {
      dialog.showModal()
      dialog.querySelector<HTMLElement>("[data-autofocus]")?.focus()
    } else dialog.close()
  }, [open])
  // A selection that is dragged out of a field ends outside, and closes nothing.
  const pressBegan = useRef<EventTarget>(null)
  const pressed = ({ target }: MouseEvent<HTMLDialogElement>) => {
    if (!insistent && target === element.current && target === pressBegan.current) onClose()
  }
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions, jsx-a11y/click-events-have-key-events -- Escape does it
    <dialog
      ref={element}
      className={`modal modal-${kind}`}
      aria-labelledby={titleId}
      onPointerDown={({ target }) => {
        pressBegan.current = target
      }}
      onClick={pressed}
      onCancel={(event) => {
        event.preventDefault()
        if (!insistent) onClose()
      }}
      onClose={() => {
        if (open) onClose()
      }}
    >
      {open && (
        <div className="modal-panel">
          <header className="modal-head">
            <h2 id={titleId}>{title}</h2>
            {!insistent && (
              <IconButton label={text.close} onClick={onClose}>
                <X />
              </IconButton>
            )}
          </header>
          <div className="modal-body">{children}</div>
          {footer !== undefined && <footer className="modal-foot">{footer}</footer>}
        </div>
      )}
    </dialog>
  )
}
