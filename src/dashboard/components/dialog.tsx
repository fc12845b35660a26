/**
 * Dialogs and drawers, on the browser's own modal dialog. It keeps the focus inside, makes the rest inert, closes with
 * Escape and a press outside, and gives the focus back: to what it was opened by, or to what stood around that where it is
 * gone. A dialog is open for as long as it is mounted, so it begins anew each time. The focus starts at the element marked `data-autofocus`, else at the first that takes it; React's own
 * `autoFocus` comes too early for a modal dialog.
 */
import { type QueryKey, useQueryClient } from "@tanstack/react-query"
import { X } from "lucide-react"
import {
  type FormEvent,
  type MouseEvent,
  type ReactNode,
  useCallback,
  useEffect,
  useId,
  useLayoutEffect,
  useRef,
} from "react"
import { useSearchParams } from "wouter"
import { briefly, useChange } from "../api/queries.ts"
import { Button, IconButton } from "./button.tsx"
import { useToasts } from "./feedback.tsx"
import { FormError } from "./layout.tsx"
import { useComponentText } from "./text.ts"

interface DialogProps {
  readonly title: string
  readonly children: ReactNode
  /** Buttons, the main one last. */
  readonly footer?: ReactNode
  /** The dialog is to be closed: the owner stops rendering it. */
  readonly onClose: () => void
  /** A press outside or Escape does not close it: for what is shown once. */
  readonly insistent?: boolean
  /** Asked at a press outside, which may be a slip: what was written in it would be lost. */
  readonly isDirty?: () => boolean
}

/** In the middle of the screen; on a phone at its bottom. */
export const Dialog = (props: DialogProps) => <Modal {...props} kind="dialog" />

/** At the side, with details of something on the page; on a phone over the whole page. */
export const Drawer = (props: DialogProps) => <Modal {...props} kind="drawer" />

/** Over all of the page, which is not seen behind it. It is closed by what it asks for. */
export const Cover = (props: Pick<DialogProps, "title" | "children">) => (
  <Modal {...props} kind="cover" insistent onClose={() => undefined} />
)

interface FormDialogProps extends Omit<DialogProps, "footer"> {
  /** The word on the button that submits. */
  readonly submit: string
  readonly danger?: boolean
  readonly disabled?: boolean
  /** The form has been submitted and is at work. */
  readonly busy: boolean
  readonly error: Error | null
  /** The form's own words for what is not allowed or not possible. */
  readonly refused?: (message: string) => string
  /** A step back in the place of "Cancel". */
  readonly back?: { readonly label: string; readonly onBack: () => void } | undefined
  /** Not called while the form is busy. */
  readonly onSubmit: (form: FormData) => void
}

/** A dialog around one form: an error above them, "Cancel" and the submitting button below. */
export function FormDialog(props: FormDialogProps) {
  const { submit, danger = false, disabled = false, busy, error, refused, back, onSubmit, children, ...dialog } = props
  const text = useComponentText()
  const id = useId()
  const dirty = useRef(false)
  const form = useRef<HTMLFormElement>(null)
  const sent = useRef(false)
  // What the form itself refuses has the focus already. This is for what the server refuses.
  useEffect(() => {
    if (sent.current && !busy) focusOnWrong(form.current)
  }, [busy])
  return (
    <Dialog
      {...dialog}
      isDirty={() => dirty.current}
      footer={
        <>
          <Button onClick={back?.onBack ?? dialog.onClose}>{back?.label ?? text.cancel}</Button>
          <Button kind={danger ? "danger" : "primary"} type="submit" form={id} busy={busy} disabled={disabled}>
            {submit}
          </Button>
        </>
      }
    >
      <form
        id={id}
        ref={form}
        className="dialog-form"
        onInput={() => {
          dirty.current = true
        }}
        onSubmit={(event) => {
          event.preventDefault()
          if (busy) return
          sent.current = true
          onSubmit(new FormData(event.currentTarget))
        }}
      >
        {error !== null && <FormError error={error} refused={refused} />}
        {children}
      </form>
    </Dialog>
  )
}

/** What a form refuses may be out of sight, and is read out only where the focus is. Its fields say so by the time that the event is over. */
export function toFirstWrong(event: FormEvent): void {
  const { target, currentTarget } = event
  if (!(target instanceof HTMLFormElement)) return
  // A dialog sees to its own forms, wherever it stands.
  if (target.closest("dialog, main") === currentTarget) setTimeout(() => focusOnWrong(target))
}

const focusOnWrong = (form: HTMLElement | null): void =>
  form?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus()

function Modal({
  title,
  children,
  footer,
  onClose,
  insistent = false,
  isDirty,
  kind,
}: DialogProps & { readonly kind: "dialog" | "drawer" | "cover" }) {
  const text = useComponentText()
  const titleId = useId()
  const element = useRef<HTMLDialogElement>(null)
  useLayoutEffect(() => {
    const dialog = element.current
    const opener = document.activeElement
    // Nothing has the focus where the dialog before took its own opener along.
    const around = opener === document.body ? aroundGone : partsAround(opener)
    show(dialog)
    return () => {
      // The browser gives the focus back only when the dialog is closed before it is removed.
      dialog?.close()
      aroundGone = around
      setTimeout(() => {
        if (aroundGone === around) aroundGone = []
        if (document.activeElement === document.body) focusOn(around.find(({ isConnected }) => isConnected))
      }, GONE_MS)
    }
  }, [])
  // A press that began inside does not close the dialog: a selection may be dragged out of a field.
  const pressBegan = useRef<EventTarget>(null)
  const pressed = ({ target }: MouseEvent<HTMLDialogElement>) => {
    const isOutside = target === element.current && target === pressBegan.current
    if (isOutside && !insistent && isDirty?.() !== true) onClose()
  }
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions, jsx-a11y/click-events-have-key-events -- Escape does it
    <dialog
      ref={element}
      className={`modal modal-${kind}`}
      aria-labelledby={titleId}
      closedby={insistent ? "none" : undefined}
      onPointerDown={({ target }) => {
        pressBegan.current = target
      }}
      onClick={pressed}
      onSubmit={toFirstWrong}
      onCancel={(event) => {
        event.preventDefault()
        if (!insistent) onClose()
      }}
      // A browser may close it without asking, as by a second Escape; one that does not know `closedby` does so with an insistent one too.
      onClose={() => {
        if (element.current?.open !== false) return
        if (insistent) show(element.current)
        else onClose()
      }}
    >
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
    </dialog>
  )
}

/** What a dialog has taken off the page is gone by then. Milliseconds. */
const GONE_MS = 100

/** Around what the dialog that has just gone was opened from, for one that takes its place. */
let aroundGone: readonly HTMLElement[] = []

function show(dialog: HTMLDialogElement | null): void {
  dialog?.showModal()
  dialog?.querySelector<HTMLElement>("[data-autofocus]")?.focus()
}

/** From the nearest to the whole page. */
function partsAround(element: Element | null): readonly HTMLElement[] {
  const part = element?.parentElement?.closest<HTMLElement>("table, section, main")
  return part === null || part === undefined ? [] : [part, ...partsAround(part)]
}

function focusOn(part: HTMLElement | undefined): void {
  if (part === undefined) return
  part.tabIndex = -1
  part.focus({ preventScroll: true })
}

interface ConfirmDialogProps {
  readonly title: string
  /** What will happen. */
  readonly children: ReactNode
  /** The word on the button, and the notice when it is done. */
  readonly act: string
  readonly done: string
  readonly run: () => Promise<unknown>
  /** What is asked for again when it is done. */
  readonly stale: readonly QueryKey[]
  readonly onClose: () => void
}

/** A step that cannot be taken back, asked once more: what will happen, and a button that names it. */
export function ConfirmDialog({ title, children, act, done, run, stale, onClose }: ConfirmDialogProps) {
  const toasts = useToasts()
  const client = useQueryClient()
  const change = useChange({
    mutationFn: run,
    onSuccess: async () => {
      await briefly(Promise.all(stale.map((queryKey) => client.invalidateQueries({ queryKey }))))
      toasts.done(done)
      onClose()
    },
  })
  return (
    <FormDialog
      title={title}
      submit={act}
      danger
      busy={change.isPending}
      error={change.error}
      onSubmit={() => change.mutate()}
      onClose={onClose}
    >
      {children}
    </FormDialog>
  )
}

interface Opened {
  readonly id: string | undefined
  readonly open: (id: string) => void
  readonly close: () => void
}

/** What a page shows in its drawer, in the address: an entry in the browser's history, so that the back button closes it. */
export function useOpened(name: string): Opened {
  const [query, setQuery] = useSearchParams()
  const open = useCallback(
    (id: string) => setQuery((now) => including(now, name, id), { state: { opened: true } }),
    [name, setQuery],
  )
  const close = useCallback(() => {
    if (wasOpenedHere(history.state)) history.back()
    else setQuery((now) => including(now, name, undefined), { replace: true })
  }, [name, setQuery])
  return { id: query.get(name) ?? undefined, open, close }
}

function including(query: URLSearchParams, name: string, id: string | undefined): URLSearchParams {
  const written = new URLSearchParams(query)
  if (id === undefined) written.delete(name)
  else written.set(name, id)
  return written
}

const wasOpenedHere = (state: unknown): boolean => typeof state === "object" && state !== null && "opened" in state
