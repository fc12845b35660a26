/** What was spent on: sums over time, their parts, and every call with its receipt. It follows calls live. */
import { keepPreviousData, useQuery } from "@tanstack/react-query"
import { Download, X } from "lucide-react"
import { modelsQuery, namedKeysQuery } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { ErrorState, Skeleton, Stale } from "../../components/feedback.tsx"
import { SelectField } from "../../components/form.tsx"
import { DateRange } from "../../components/date-field.tsx"
import { useRunText } from "../../components/spending.tsx"
import { DownloadLink, Page, Stat, Stats } from "../../components/layout.tsx"
import { Money, useStatusText, callFormat, callFormats, formatName } from "../../components/values.tsx"
import { useFormat } from "../../i18n/language.tsx"
import { PriceChanges } from "../../shell/notices.tsx"
import { type AddressedView, canBeSummed, isFiltered, nothingFiltered, statuses, useView } from "./address.ts"
import { cacheShare, inputOf } from "./series.ts"
import { Breakdown, ChartCard } from "./figures.tsx"
import { CallDrawer } from "./call-drawer.tsx"
import { Calls, CallSearch, RunCard } from "./calls.tsx"
import { exportAddress, latestRunsQuery, type Series, seriesQuery, useViewName } from "./data.ts"
import { RefusedCalls, RefusedNotice } from "./refused.tsx"
import { useUsageText } from "./text.ts"

export default function UsagePage() {
  const text = useUsageText()
  const addressed = useView()
  const { view } = addressed
  return (
    <Page
      title={text.title}
      intro={text.intro}
      wide
      actions={
        <DownloadLink href={exportAddress(view)} icon={<Download />}>
          {text.download}
        </DownloadLink>
      }
    >
      <PriceChanges />
      <CallSearch open={addressed.open} />
      <Filters {...addressed} />
      {view.run !== undefined && <RunCard key={view.run} id={view.run} change={addressed.change} />}
      {canBeSummed(view) && <Sums {...addressed} />}
      {view.status === "refused" ? (
        <RefusedCalls {...addressed} />
      ) : (
        <>
          {view.run === undefined && <RefusedNotice {...addressed} />}
          <Calls {...addressed} />
        </>
      )}
      {view.request !== undefined && (
        <CallDrawer key={view.request} requestId={view.request} onClose={addressed.close} />
      )}
    </Page>
  )
}

function Sums({ view, change, zoom }: ReturnType<typeof useView>) {
  const viewName = useViewName()
  const { data, error, refetch, isPlaceholderData } = useQuery({
    ...seriesQuery(view),
    placeholderData: keepPreviousData,
  })
  if (data === undefined && error) return <ErrorState error={error} retry={refetch} />
  const staleOf = isPlaceholderData && data ? viewName(data.of) : undefined
  return (
    <>
      <Numbers series={data} staleOf={staleOf} />
      <ChartCard view={view} change={change} zoom={zoom} series={data} staleOf={staleOf} />
      <Breakdown view={view} change={change} />
    </>
  )
}

/** The range of days and the filters that hold for the whole page. */
function Filters({ view, today, change }: AddressedView) {
  const text = useUsageText()
  const statusText = useStatusText()
  const runText = useRunText()
  const models = useQuery(modelsQuery)
  const keys = useQuery(namedKeysQuery)
  const runs = useQuery(latestRunsQuery(view.key)).data ?? []
  return (
    <search className="usage-filters" aria-label={text.filters}>
      <DateRange value={view.days} today={today} onChange={(days) => change({ days })} />
      <div className="usage-selects">
        <SelectField
          label={text.model}
          value={view.model ?? ""}
          options={choice(
            text.anyModel,
            models.data?.map(({ model, display_name: label }) => ({ value: model, label })) ?? [],
            view.model,
          )}
          onChange={({ target }) => change({ model: target.value || undefined })}
        />
        <SelectField
          label={text.key}
          value={view.key ?? ""}
          options={choice(text.anyKey, keys.data?.map(({ id, name }) => ({ value: id, label: name })) ?? [], view.key)}
          onChange={({ target }) => change({ key: target.value || undefined })}
        />
        <SelectField
          label={text.format}
          value={view.format ?? ""}
          options={choice(
            text.anyFormat,
            callFormats.map((format) => ({ value: format, label: formatName(format) })),
            view.format,
          )}
          onChange={({ target }) => change({ format: callFormat(target.value) })}
        />
        <SelectField
          label={text.status}
          value={view.status ?? ""}
          options={choice(
            text.anyStatus,
            statuses.map((status) => ({ value: status, label: { ...statusText, refused: text.refused }[status] })),
            view.status,
          )}
          onChange={({ target }) => change({ status: statuses.find((status) => status === target.value) })}
        />
        {(runs.length > 0 || view.run !== undefined) && (
          <SelectField
            label={runText.title}
            value={view.run ?? ""}
            options={choice(
              runText.any,
              runs.map(({ id, name }) => ({ value: id, label: name })),
              view.run,
            )}
            onChange={({ target }) => change({ run: target.value || undefined })}
          />
        )}
      </div>
      {isFiltered(view) && (
        <div className="usage-filtered">
          {view.error !== undefined && (
            <Button
              size="small"
              icon={<X />}
              aria-label={text.errorFilter(view.error)}
              onClick={() => change({ error: undefined })}
            >
              <code>{view.error}</code>
            </Button>
          )}
          <Button size="small" kind="quiet" onClick={() => change(nothingFiltered)}>
            {text.clear}
          </Button>
        </div>
      )}
    </search>
  )
}

interface Option {
  readonly value: string
  readonly label: string
}

/** The options of a filter. A chosen value that is not known, such as a model that is gone, is an option too. */
const choice = (any: string, known: readonly Option[], chosen: string | undefined): readonly Option[] => [
  { value: "", label: any },
  ...known,
  ...(chosen === undefined || known.some(({ value }) => value === chosen) ? [] : [{ value: chosen, label: chosen }]),
]

/** From Rp 100,000 on decimals are shown only in the tip. */
const LARGE_MICRO = 100_000_000_000

/** The range in five figures. */
function Numbers({ series, staleOf }: { readonly series: Series | undefined; readonly staleOf: string | undefined }) {
  const text = useUsageText()
  const labels = [text.spend, text.calls, text.tokens, text.cache, text.latency]
  return (
    <Stale of={staleOf} className="usage-numbers">
      <Stats>
        {series === undefined ? (
          labels.map((label) => (
            <Stat key={label} label={label}>
              <Skeleton />
            </Stat>
          ))
        ) : (
          <Known series={series} />
        )}
      </Stats>
    </Stale>
  )
}

function Known({ series: { total, first_token_of: newest } }: { readonly series: Series }) {
  const text = useUsageText()
  const format = useFormat()
  const { requests, errors, charge_micro: charge, first_token_p50_ms: median, first_token_p95_ms: slow } = total
  const share = cacheShare(total)
  const [input, output] = [inputOf(total), total.output_tokens]
  return (
    <>
      <Stat
        label={text.spend}
        note={requests === 0 ? undefined : text.perCall(format.rupiah(BigInt(charge) / BigInt(requests)))}
      >
        <Money micro={charge} form={charge < LARGE_MICRO ? "plain" : "whole"} />
      </Stat>
      <Stat
        label={text.calls}
        note={
          requests === 0
            ? undefined
            : errors === 0
              ? text.noneFailed
              : text.failed(format.number(errors), format.percent(errors / requests))
        }
      >
        {format.number(requests)}
      </Stat>
      <Stat label={text.tokens} note={text.tokensNote(format.compact(input), format.compact(output))}>
        <span title={format.number(input + output)}>{format.compact(input + output)}</span>
      </Stat>
      <Stat label={text.cache} note={text.cacheNote(format.number(total.cache_reads), total.cache_reads === 1)}>
        {share === null ? "–" : format.percent(share)}
      </Stat>
      <Stat
        label={text.latency}
        note={
          slow !== null && (
            <>
              {text.latencyNote(format.duration(slow))}
              {newest !== null && ` · ${text.latencyNewest(format.number(newest))}`}
            </>
          )
        }
      >
        {median === null ? "–" : format.duration(median)}
      </Stat>
    </>
  )
}
