/**
 * A button with a small panel of links and buttons below it, on the browser's own popover: it closes with Escape, a press
 * outside, and whatever is chosen in it.
 */
import { type ReactNode, useId, useRef } from "react"

interface MenuProps {
  readonly label: string
  readonly trigger: ReactNode
  readonly children: ReactNode
  readonly className?: string
}

export function Menu({ label, trigger, children, className = "" }: MenuProps) {
  const id = useId()
  const panel = useRef<HTMLDivElement>(null)
  return (
    <div className={`menu ${className}`.trimEnd()}>
      <button type="button" className="menu-trigger" popoverTarget={id} aria-label={label}>
        {trigger}
      </button>
      {/* oxlint-disable-next-line jsx-a11y/no-static-element-interactions, jsx-a11y/click-events-have-key-events -- the press is its children's */}
      <div
        id={id}
        ref={panel}
        popover="auto"
        className="menu-panel"
        onClick={(event) => {
          if (event.target instanceof Element && event.target.closest("a, button[data-closes]"))
            panel.current?.hidePopover()
        }}
      >
        {children}
      </div>
    </div>
  )
}
