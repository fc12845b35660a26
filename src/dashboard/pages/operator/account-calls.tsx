/** An account's calls, as its owner lists them, with the record of each. */
import { queryOptions, useQuery } from "@tanstack/react-query"
import { useParams } from "wouter"
import { api, unwrap } from "../../api/client.ts"
import { modelsQuery } from "../../api/queries.ts"
import { DataTable } from "../../components/data-table.tsx"
import { DateRange } from "../../components/date-field.tsx"
import { Drawer } from "../../components/dialog.tsx"
import { ErrorState, Skeleton } from "../../components/feedback.tsx"
import { SelectField } from "../../components/form.tsx"
import { Card } from "../../components/layout.tsx"
import { useStatusText } from "../../components/values.tsx"
import type { Days } from "../../i18n/figures.ts"
import { CallRecord } from "../usage/call-drawer.tsx"
import { callName } from "../usage/data.ts"
import { Archived, CallSearch, useCallColumns } from "../usage/calls.tsx"
import { accountQuery } from "./account.tsx"
import { useAccountText } from "./account-text.ts"
import { at, CsvLink, OperatorPage, useDays, useList, useParameter } from "./frame.tsx"

const statuses = ["ok", "upstream_error", "aborted_stream", "usage_missing", "billing_error"] as const

interface Filter {
  readonly days: Days
  readonly model: string
  readonly key: string
  readonly status: string
}

const questionOf = ({ days, model, key, status }: Filter) => ({
  ...days,
  ...(model !== "" && { model }),
  ...(key !== "" && { key_id: key }),
  ...(statuses.some((known) => known === status) && { status: status as (typeof statuses)[number] }),
})

const usageOf = (id: string) => api.operator.accounts({ id: encodeURIComponent(id) }).usage

export default function AccountCallsPage() {
  const text = useAccountText()
  const statusText = useStatusText()
  const { id = "" } = useParams()
  const { days, today, choose } = useDays()
  const [model, setModel] = useParameter("model")
  const [key, setKey] = useParameter("key")
  const [status, setStatus] = useParameter("status")
  const [opened, open] = useParameter("request")
  const account = useQuery(accountQuery(id))
  const models = useQuery(modelsQuery)
  const keyName = (keyId: string) => account.data?.keys.find((each) => each.id === keyId)?.name ?? keyId
  const question = questionOf({ days, model, key, status })
  const { first, table } = useList(["account-calls", id, question], (cursor) =>
    unwrap(usageOf(id).get({ query: { ...question, ...at(cursor) } })),
  )
  const selects = [
    {
      label: text.model,
      value: model,
      set: setModel,
      any: text.anyModel,
      options: models.data?.map((each) => ({ value: each.model, label: each.display_name })) ?? [],
    },
    {
      label: text.key,
      value: key,
      set: setKey,
      any: text.anyKey,
      options: account.data?.keys.map((each) => ({ value: each.id, label: each.name })) ?? [],
    },
    {
      label: text.status,
      value: status,
      set: setStatus,
      any: text.anyStatus,
      options: statuses.map((each) => ({ value: each, label: statusText[each] })),
    },
  ]
  const columns = useCallColumns(keyName)
  // The title is as long as an address, and would move what is below it: all comes anew.
  if (account.isPending)
    return (
      <OperatorPage key="waiting" title={text.calls}>
        <Skeleton lines={8} />
      </OperatorPage>
    )
  return (
    <OperatorPage
      title={account.data === undefined ? text.calls : text.callsTitle(account.data.email)}
      actions={<CsvLink path={`/operator/accounts/${encodeURIComponent(id)}/usage`} query={question} />}
    >
      <CallSearch open={open} />
      <search className="usage-filters" aria-label={text.calls}>
        <DateRange value={days} today={today} onChange={choose} />
        <div className="usage-selects">
          {selects.map(({ label, value, set, any, options }) => (
            <SelectField
              key={label}
              label={label}
              value={value}
              options={[
                { value: "", label: any },
                ...options,
                // One that is not known, such as a model that is gone.
                ...(value === "" || options.some((each) => each.value === value) ? [] : [{ value, label: value }]),
              ]}
              onChange={({ target }) => set(target.value)}
            />
          ))}
        </div>
      </search>
      <Card flush>
        <Archived until={first?.archived_until} />
        <DataTable
          caption={text.calls}
          columns={columns}
          {...table}
          rowKey={callName}
          onOpen={(call) => open(call.request_id)}
          empty={text.callsEmpty}
        />
      </Card>
      {opened !== "" && (
        <Drawer title={opened} onClose={() => open("")}>
          <OpenedCall accountId={id} requestId={opened} keyName={keyName} />
        </Drawer>
      )}
    </OperatorPage>
  )
}

interface OpenedCallProps {
  readonly accountId: string
  readonly requestId: string
  readonly keyName: (id: string) => string
}

function OpenedCall({ accountId, requestId, keyName }: OpenedCallProps) {
  const { data, error, refetch } = useQuery(callQuery(accountId, requestId))
  if (data !== undefined) return <CallRecord call={data} keyName={keyName} />
  return error ? <ErrorState error={error} retry={refetch} /> : <Skeleton lines={8} />
}

const callQuery = (accountId: string, requestId: string) =>
  queryOptions({
    queryKey: ["operator", "account-call", accountId, requestId],
    queryFn: () => unwrap(usageOf(accountId)({ request_id: encodeURIComponent(requestId) }).get()),
  })
