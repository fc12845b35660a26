/** Several views of one thing, one visible at a time. The arrow keys move between them. */
import { Tabs as BaseTabs } from "@base-ui/react/tabs"
import type { ReactNode } from "react"

interface Tab {
  readonly id: string
  readonly label: string
  readonly content: ReactNode
}

interface TabsProps {
  readonly label: string
  readonly tabs: readonly Tab[]
  /** The id of the one to begin with. */
  readonly first?: string | undefined
  /** For many: below each other at the side, where there is room. */
  readonly upright?: boolean
}

export const Tabs = ({ label, tabs, first, upright = false }: TabsProps) => (
  <BaseTabs.Root
    defaultValue={(tabs.find(({ id }) => id === first) ?? tabs[0])?.id ?? ""}
    orientation={upright ? "vertical" : "horizontal"}
    className={upright ? "tabs tabs-upright" : "tabs"}
  >
    <BaseTabs.List className="tabs-list" aria-label={label}>
      {tabs.map(({ id, label: name }) => (
        <BaseTabs.Tab key={id} value={id} className="tabs-tab">
          {name}
        </BaseTabs.Tab>
      ))}
    </BaseTabs.List>
    {tabs.map(({ id, content }) => (
      <BaseTabs.Panel key={id} value={id} className="tabs-panel">
        {content}
      </BaseTabs.Panel>
    ))}
  </BaseTabs.Root>
)
