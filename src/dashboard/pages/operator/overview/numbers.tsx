/** The overview's figures, each with what it counts. */
import { Stat, Stats } from "../../../components/card.tsx"
import { Money } from "../../../components/money.tsx"
import { useFormat } from "../../../i18n/format.ts"
import type { Overview } from "./data.ts"
import { useOverviewText } from "./text.ts"

interface NumbersProps {
  readonly overview: Overview
}

export function PeriodNumbers({ overview }: NumbersProps) {
  const text = useOverviewText()
  const format = useFormat()
  const { calls, top_ups: topUps } = overview
  const failed = calls.total - (calls.by_status["ok"] ?? 0)
  return (
    <section className="operator-stats" aria-label={text.period}>
      <h2>{text.period}</h2>
      <Stats>
        <Stat
          label={text.revenue}
          note={text.revenueNote(format.rupiah(overview.charged_micro), format.rupiah(overview.service_fees_micro))}
        >
          <Money micro={overview.revenue_micro} />
        </Stat>
        <Stat
          label={text.calls}
          note={
            failed === 0
              ? calls.total === 0
                ? text.noCalls
                : text.noFailures
              : text.callsNote(format.number(failed), format.percent(failed / calls.total))
          }
        >
          {format.number(calls.total)}
        </Stat>
        <Stat label={text.topUps} note={text.topUpsNote(format.number(topUps.count), topUps.count === 1)}>
          <Money micro={topUps.amount_micro} />
        </Stat>
        <Stat label={text.absorbed} note={text.absorbedNote}>
          <Money micro={overview.absorbed_micro} />
        </Stat>
        <Stat label={text.adjusted} note={text.adjustedNote}>
          <Money micro={overview.adjusted_micro} />
        </Stat>
        <Stat label={text.newAccounts} note={text.newAccountsNote(format.number(overview.now.accounts))}>
          {format.number(overview.new_accounts)}
        </Stat>
      </Stats>
    </section>
  )
}

export function NowNumbers({ overview }: NumbersProps) {
  const text = useOverviewText()
  const format = useFormat()
  const { now, this_process: here } = overview
  return (
    <section className="operator-stats" aria-label={text.now}>
      <h2>{text.now}</h2>
      <Stats>
        <Stat label={text.inFlight} note={text.inFlightNote(format.number(now.open_calls))}>
          {format.number(here.in_flight)}
        </Stat>
        <Stat label={text.held} note={text.heldNote}>
          <Money micro={now.held_micro} />
        </Stat>
        <Stat
          label={text.lag}
          note={here.ledger_backlog === null ? text.lagUnknown : text.lagNote(format.number(here.ledger_backlog))}
        >
          {here.ledger_lag_ms === null ? "–" : format.duration(here.ledger_lag_ms)}
        </Stat>
        <Stat label={text.balances} note={text.balancesNote}>
          <Money micro={now.balances_micro} />
        </Stat>
        <Stat label={text.frozen} note={text.frozenNote}>
          {format.number(now.frozen_accounts)}
        </Stat>
        <Stat label={text.processes} note={text.processesNote(here.id)}>
          {format.number(now.processes)}
        </Stat>
      </Stats>
    </section>
  )
}
