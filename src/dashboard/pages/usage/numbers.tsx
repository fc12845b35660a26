/** The range in five numbers. */
import { Stat, Stats } from "../../components/card.tsx"
import { Money } from "../../components/money.tsx"
import { Skeleton } from "../../components/skeleton.tsx"
import { useFormat } from "../../i18n/format.ts"
import type { Series } from "./data.ts"
import { cacheShare, inputOf } from "./series.ts"
import { useUsageText } from "./text.ts"

/** From Rp 100,000 on nobody looks for the decimals, which are in the tip. */
const LARGE_MICRO = 100_000_000_000

export function Numbers({ series }: { readonly series: Series | undefined }) {
  const text = useUsageText()
  const labels = [text.spend, text.calls, text.tokens, text.cache, text.latency]
  return (
    <div className="usage-numbers">
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
    </div>
  )
}

function Known({ series: { total, first_token_of: newest } }: { readonly series: Series }) {
  const text = useUsageText()
  const format = useFormat()
  const { requests, errors, charge_micro: charge, first_token_p50_ms: median, first_token_p95_ms: slow } = total
  const charged = requests - errors
  const share = cacheShare(total)
  const [input, output] = [inputOf(total), total.output_tokens]
  return (
    <>
      <Stat
        label={text.spend}
        note={charged === 0 ? undefined : text.perCall(format.rupiah(BigInt(charge) / BigInt(charged)))}
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
