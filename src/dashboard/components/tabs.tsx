/** Several views of one thing, one visible at a time. The arrow keys move between them. */
import { Tabs as BaseTabs } from "@base-ui/react/tabs"
import type { ReactNode } from "react"

interface Tab {
  readonly id: string
  readonly label: string
  readonly content: ReactNode
}

export const Tabs = ({ label, tabs }: { readonly label: string; readonly tabs: readonly Tab[] }) => (
  <BaseTabs.Root defaultValue={tabs[0]?.id ?? ""} className="tabs">
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
