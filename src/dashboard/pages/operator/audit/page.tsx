/** What operators did: who, when, from where, what it was and what it is, and why. */
import { ScrollText } from "lucide-react"
import { useState } from "react"
import { api } from "../../../api/client.ts"
import { told } from "../../../api/failure.ts"
import { Card } from "../../../components/card.tsx"
import { type Column, DataTable } from "../../../components/data-table.tsx"
import { Drawer } from "../../../components/dialog.tsx"
import { EmptyState } from "../../../components/empty-state.tsx"
import { Facts } from "../../../components/facts.tsx"
import { useFormat } from "../../../i18n/format.ts"
import { useParameter } from "../address.ts"
import { Changes } from "../changes.tsx"
import { at, useList } from "../list.ts"
import { SearchForm } from "../search-form.tsx"
import { OperatorPage } from "../section.tsx"
import { useAuditText } from "./text.ts"

const auditPage = (subject: string, cursor: string | undefined) =>
  told(api.operator.audit.get({ query: { ...(subject !== "" && { subject }), ...at(cursor) } }))
type Entry = Awaited<ReturnType<typeof auditPage>>["data"][number]

export default function AuditPage() {
  const text = useAuditText()
  const [subject, setSubject] = useParameter("subject")
  const [opened, setOpened] = useState<Entry>()
  const { table } = useList(["audit", subject], (cursor) => auditPage(subject, cursor))
  return (
    <OperatorPage title={text.title} intro={text.intro}>
      <SearchForm label={text.subject} hint={text.subjectHint} value={subject} onSearch={setSubject} />
      <Card flush>
        <DataTable
          caption={text.title}
          columns={useColumns()}
          {...table}
          rowKey={({ id }) => String(id)}
          onOpen={setOpened}
          empty={<EmptyState icon={<ScrollText />} title={subject === "" ? text.none : text.noneOf} />}
        />
      </Card>
      <EntryDrawer entry={opened} onClose={() => setOpened(undefined)} />
    </OperatorPage>
  )
}

function useActionName(): (action: string) => string {
  const { actions } = useAuditText()
  return (action) => Object.entries(actions).find(([known]) => known === action)?.[1] ?? action
}

function useColumns(): readonly Column<Entry>[] {
  const text = useAuditText()
  const format = useFormat()
  const nameOf = useActionName()
  const { columns: heads } = text
  return [
    { id: "action", head: heads.action, names: true, cell: ({ action }) => nameOf(action) },
    { id: "subject", head: heads.subject, cell: ({ subject }) => <code className="operator-long">{subject}</code> },
    {
      id: "operator",
      head: heads.operator,
      cell: ({ operator }) => <span className="operator-long">{operator?.email ?? text.machine}</span>,
    },
    {
      id: "reason",
      head: heads.reason,
      cell: ({ reason }) => <span className="operator-long">{reason ?? text.unknown}</span>,
    },
    { id: "time", head: heads.time, cell: ({ at: time }) => `${format.date(time)} ${format.time(time)}` },
  ]
}

interface EntryDrawerProps {
  readonly entry: Entry | undefined
  readonly onClose: () => void
}

function EntryDrawer({ entry, onClose }: EntryDrawerProps) {
  const text = useAuditText()
  const format = useFormat()
  const nameOf = useActionName()
  const { columns: heads } = text
  return (
    <Drawer open={entry !== undefined} title={nameOf(entry?.action ?? "")} onClose={onClose}>
      {entry !== undefined && (
        <>
          <Changes before={entry.before} after={entry.after} />
          <Facts
            title={text.details}
            facts={[
              { name: heads.subject, value: <code>{entry.subject}</code> },
              { name: heads.operator, value: entry.operator?.email ?? text.machine },
              { name: heads.reason, value: entry.reason ?? text.unknown },
              { name: heads.time, value: `${format.date(entry.at)} ${format.time(entry.at)}` },
              { name: text.address, value: entry.address ?? text.unknown },
              { name: text.request, value: <code>{entry.request_id}</code> },
            ]}
          />
        </>
      )}
    </Drawer>
  )
}
