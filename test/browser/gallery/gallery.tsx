/** Every component once, with what it does at its edges: what the test of the components looks at. */
import { useState } from "react"
import { createRoot } from "react-dom/client"
import { Router } from "wouter"
import { ApiFailure } from "../../../src/dashboard/api/client.ts"
import { addFonts } from "../../../src/dashboard/shell/appearance.tsx"
import { Button, ButtonLink, IconButton } from "../../../src/dashboard/components/button.tsx"
import Chart from "../../../src/dashboard/components/chart.tsx"
import { DataTable, type Sorting } from "../../../src/dashboard/components/data-table.tsx"
import { DateRange } from "../../../src/dashboard/components/date-field.tsx"
import { Dialog, Drawer } from "../../../src/dashboard/components/dialog.tsx"
import { EmptyState, ErrorState, ToastProvider, useToasts } from "../../../src/dashboard/components/feedback.tsx"
import { Field, PasswordField, SelectField, Switch, TextField } from "../../../src/dashboard/components/form.tsx"
import { Card, CodeBlock, Page, Stat, Stats, Tabs } from "../../../src/dashboard/components/layout.tsx"
import { Money, Tag, UsageBar } from "../../../src/dashboard/components/values.tsx"
import { useFormat, LanguageProvider } from "../../../src/dashboard/i18n/language.tsx"
import { lastDays } from "../../../src/dashboard/i18n/figures.ts"

const TODAY = "2026-11-21"
const days = Array.from({ length: 14 }, (_, day) => `2026-11-${String(day + 8).padStart(2, "0")}`)
const failure = new ApiFailure(
  {
    error: "The model's backend is throttling requests; retry shortly.",
    code: "upstream.rate_limited",
    type: "rate_limited",
    request_id: "req_0mwprhqgak3Vn9V92V4UB3XiwBJ",
    retryable: true,
    hint: "Wait a little.",
  },
  429,
  12,
)

function Gallery() {
  const format = useFormat()
  const toasts = useToasts()
  const [open, setOpen] = useState<"dialog" | "drawer" | "step" | "next step" | "steps done">()
  const [range, setRange] = useState(lastDays(TODAY, 7))
  const [sorting, setSorting] = useState<Sorting>({ by: "cost", down: true })
  const [on, setOn] = useState(true)
  const close = () => setOpen(undefined)
  return (
    <Page title="Components" intro="All of them." actions={<Button kind="primary">Main</Button>}>
      <Card title="Buttons">
        <Button onClick={() => setOpen("dialog")}>Open dialog</Button>
        <Button kind="quiet" onClick={() => setOpen("drawer")}>
          Open drawer
        </Button>
        <Button kind="danger">Danger</Button>
        <Button busy>Busy</Button>
        <Button disabled>Disabled</Button>
        <ButtonLink to="/elsewhere">Link</ButtonLink>
        <IconButton label="Icon">×</IconButton>
        <Button onClick={() => toasts.done("It was done")}>Done</Button>
        <Button onClick={() => toasts.failed("It failed")}>Failed</Button>
      </Card>
      <Card title="Fields">
        <TextField label="Name" hint="A hint" optional placeholder="Placeholder" />
        <TextField label="Amount" before="Rp" after="per day" error="Too little" defaultValue="5" />
        <Field label="Notes">
          {(attributes) => (
            <span className="input">
              <textarea rows={2} {...attributes} />
            </span>
          )}
        </Field>
        <PasswordField label="Password" />
        <SelectField
          label="Period"
          options={[
            { value: "daily", label: "A day" },
            { value: "monthly", label: "A month" },
          ]}
        />
        <Switch label="On" checked={on} onChange={setOn} />
        <DateRange value={range} today={TODAY} onChange={setRange} />
      </Card>
      <Stats>
        <Stat label="Balance" note="A note">
          <Money micro={12_345_678_901} />
        </Stat>
        <Stat label="Little">
          <Money micro={164_000} />
        </Stat>
      </Stats>
      <Card title="Words">
        {(["neutral", "good", "warn", "bad", "accent"] as const).map((tone) => (
          <Tag key={tone} tone={tone}>
            {tone}
          </Tag>
        ))}
        <UsageBar label="Requests a minute" used={10} limit={60} format={format.number} />
        <UsageBar label="Tokens a minute" used={90} limit={100} format={format.number} />
        <UsageBar label="Budget" used={100} limit={100} format={format.number} />
      </Card>
      <Card title="Chart">
        <Chart
          caption="Spend by model"
          kind="bars"
          labels={days}
          series={[
            { name: "one", values: days.map((_, day) => day * 1_000_000) },
            { name: "two", values: days.map((_, day) => (14 - day) * 500_000) },
          ]}
          total="Sum"
          before={{ name: "before", values: days.map(() => 6_000_000) }}
          format={(micro) => format.rupiah(Math.round(micro))}
          onZoom={(from, to) => toasts.done(`from ${days[from]} to ${days[to]}`)}
        />
      </Card>
      <Card title="Chart of many">
        <Chart
          caption="Spend by key"
          kind="bars"
          labels={days}
          series={Array.from({ length: 13 }, (_, each) => ({
            name: each === 12 ? "9 others" : `key ${each + 1}`,
            values: days.map((__, day) => (6 + ((day * 7 + each * 5) % 11)) * 100_000),
            others: each === 12,
          }))}
          total="Sum"
          format={(micro) => format.rupiah(Math.round(micro))}
        />
        <Chart
          caption="Latency by key"
          kind="lines"
          labels={days}
          series={Array.from({ length: 8 }, (_, each) => ({
            name: `key ${each + 1}`,
            values: days.map((__, day) => 400 + each * 150 + ((day * 7 + each * 5) % 11) * 30),
          }))}
          format={format.duration}
        />
      </Card>
      <Card title="Table" flush>
        <DataTable
          caption="Calls"
          columns={[
            { id: "model", head: "Model", names: true, cell: ({ model }) => model },
            { id: "cost", head: "Cost", numeric: true, sortable: true, cell: ({ cost }) => <Money micro={cost} /> },
          ]}
          rows={[
            { model: "one", cost: 1_000_000 },
            { model: "two", cost: 2_500_000 },
          ]}
          rowKey={({ model }) => model}
          empty="None"
          sorting={sorting}
          onSort={setSorting}
          onOpen={() => setOpen("drawer")}
          more={{ load() {}, busy: false }}
        />
      </Card>
      <Tabs
        label="Views"
        tabs={[
          { id: "one", label: "One", content: <CodeBlock title="Terminal" code="echo one" /> },
          { id: "two", label: "Two", content: <CodeBlock title="Terminal" code="echo two" /> },
        ]}
      />
      <ErrorState error={failure} retry={close} />
      <EmptyState title="Nothing">Nothing at all.</EmptyState>
      {open === "dialog" && (
        <Dialog title="A dialog" onClose={close} footer={<Button onClick={close}>Cancel</Button>}>
          <TextField label="Inside" />
        </Dialog>
      )}
      <Card title="Steps">
        {open !== "next step" && open !== "steps done" && <Button onClick={() => setOpen("step")}>Open steps</Button>}
      </Card>
      {open === "step" && (
        <Dialog title="A step" onClose={close} footer={<Button onClick={() => setOpen("next step")}>Next</Button>}>
          <p>Its button goes with it.</p>
        </Dialog>
      )}
      {open === "next step" && (
        <Dialog title="The next step" onClose={() => setOpen("steps done")}>
          <p>In the place of the one before.</p>
        </Dialog>
      )}
      {open === "drawer" && (
        <Drawer title="A drawer" onClose={close}>
          <p>More about it.</p>
        </Drawer>
      )}
    </Page>
  )
}

addFonts()
const root = document.getElementById("root")
if (root !== null) {
  createRoot(root).render(
    <LanguageProvider language="en" choose={() => {}}>
      <Router base="/dashboard">
        <ToastProvider>
          <main className="main">
            <Gallery />
          </main>
        </ToastProvider>
      </Router>
    </LanguageProvider>,
  )
}
