/**
 * The migrations, in order. Named here one by one, and not read from the folder, because only an import is carried into
 * a compiled binary. A migration that has been released is not edited: its checksum is recorded where it was applied.
 */
import foundation from "./0001_foundation.sql" with { type: "text" }
import aliases from "./0002_aliases.sql" with { type: "text" }
import usageMarkers from "./0003_usage_markers.sql" with { type: "text" }
import sharedLeases from "./0004_shared_leases.sql" with { type: "text" }
import reconciliations from "./0005_reconciliations.sql" with { type: "text" }
import payments from "./0006_payments.sql" with { type: "text" }
import operator from "./0007_operator.sql" with { type: "text" }
import servingProcesses from "./0008_serving_processes.sql" with { type: "text" }
import people from "./0009_people.sql" with { type: "text" }
import usageHours from "./0010_usage_hours.sql" with { type: "text" }
import keySecrets from "./0011_key_secrets.sql" with { type: "text" }
import lowBalanceMails from "./0012_low_balance_mails.sql" with { type: "text" }
import leaseVersions from "./0013_lease_versions.sql" with { type: "text" }
import fallbackAndRunningPeriods from "./0014_fallback_and_running_periods.sql" with { type: "text" }
import boundedAccounts from "./0015_bounded_accounts.sql" with { type: "text" }
import excessCounts from "./0016_excess_counts.sql" with { type: "text" }
import requestFields from "./0018_request_fields.sql" with { type: "text" }
import estimateFactors from "./0019_estimate_factors.sql" with { type: "text" }
import book from "./0020_book.sql" with { type: "text" }
import gatheredAnswers from "./0030_gathered_answers.sql" with { type: "text" }
import usageFailures from "./0031_usage_failures.sql" with { type: "text" }
import pools from "./0035_pools.sql" with { type: "text" }
import costs from "./0036_costs.sql" with { type: "text" }
import profitHours from "./0037_profit_hours.sql" with { type: "text" }
import memberSettings from "./0038_member_settings.sql" with { type: "text" }
import otherDebits from "./0040_other_debits.sql" with { type: "text" }
import idempotencyKeys from "./0041_idempotency_keys.sql" with { type: "text" }
import refusedCalls from "./0042_refused_calls.sql" with { type: "text" }
import refunds from "./0043_refunds.sql" with { type: "text" }
import documents from "./0044_documents.sql" with { type: "text" }
import accountMails from "./0045_account_mails.sql" with { type: "text" }
import secondFactors from "./0046_second_factors.sql" with { type: "text" }
import operatorRoles from "./0047_operator_roles.sql" with { type: "text" }
import agreements from "./0048_agreements.sql" with { type: "text" }
import alerts from "./0049_alerts.sql" with { type: "text" }
import announcements from "./0050_announcements.sql" with { type: "text" }
import profitDays from "./0051_profit_days.sql" with { type: "text" }
import mailsByExpiry from "./0052_mails_by_expiry.sql" with { type: "text" }
import shownBalances from "./0053_shown_balances.sql" with { type: "text" }
import passkeys from "./0054_passkeys.sql" with { type: "text" }
import runs from "./0057_runs.sql" with { type: "text" }
import usageOfRuns from "./0057_usage_of_runs.sql" with { type: "text" }
import boundKeys from "./0058_bound_keys.sql" with { type: "text" }
import accountEvents from "./0060_account_events.sql" with { type: "text" }
import spendingAlerts from "./0061_spending_alerts.sql" with { type: "text" }
import breakers from "./0062_breakers.sql" with { type: "text" }
import childKeys from "./0063_child_keys.sql" with { type: "text" }
import childrenOfKeys from "./0064_children_of_keys.sql" with { type: "text" }
import members from "./0065_members.sql" with { type: "text" }
import replayedRetries from "./0067_replayed_retries.sql" with { type: "text" }
import historyOfLimits from "./0068_history_of_limits.sql" with { type: "text" }
import houseSums from "./0069_house_sums.sql" with { type: "text" }
import proofs from "./0070_proofs.sql" with { type: "text" }
import credits from "./0071_credits.sql" with { type: "text" }
import noIndexOfRevenue from "./0072_no_index_of_revenue.sql" with { type: "text" }
import boundOfUsage from "./0073_bound_of_usage.sql" with { type: "text" }
import boundOfUsageHolds from "./0074_bound_of_usage_holds.sql" with { type: "text" }
import monthsOfUsage from "./0075_months_of_usage.sql" with { type: "text" }
import archives from "./0076_archives.sql" with { type: "text" }
import latencyHours from "./0077_latency_hours.sql" with { type: "text" }
import trialCredits from "./0079_trial_credits.sql" with { type: "text" }
import moreEndpoints from "./0081_more_endpoints.sql" with { type: "text" }
import keyOrigins from "./0082_key_origins.sql" with { type: "text" }
import originsOfKeys from "./0082_origins_of_keys.sql" with { type: "text" }
import seeAs from "./0083_see_as.sql" with { type: "text" }
import backendHistory from "./0084_backend_history.sql" with { type: "text" }
import archivedCalls from "./0086_archived_calls.sql" with { type: "text" }
import trialCreditsKept from "./0088_trial_credits_kept.sql" with { type: "text" }
import charges from "./0089_charges.sql" with { type: "text" }
import chargesAreBooked from "./0090_charges_are_booked.sql" with { type: "text" }
import usageSpans from "./0091_usage_spans.sql" with { type: "text" }
import statusNotes from "./0094_status_notes.sql" with { type: "text" }
import callsOfKeys from "./0095_calls_of_keys.sql" with { type: "text" }
import recordsAreCharges from "./0096_records_are_charges.sql" with { type: "text" }
import customerDays from "./0097_customer_days.sql" with { type: "text" }
import noSpansWithoutCalls from "./0098_no_spans_without_calls.sql" with { type: "text" }
import callsOfAccounts from "./0100_calls_of_accounts.sql" with { type: "text" }
import narrowMonths from "./0101_narrow_months.sql" with { type: "text" }
import profitAccounts from "./0110_profit_accounts.sql" with { type: "text" }
import backendMiddles from "./0111_backend_middles.sql" with { type: "text" }
import paidTopUps from "./0112_paid_top_ups.sql" with { type: "text" }
import usageGroups from "./0113_usage_groups.sql" with { type: "text" }
import newestCharges from "./0114_newest_charges.sql" with { type: "text" }
import modelCustomers from "./0115_model_customers.sql" with { type: "text" }
import usageErrors from "./0116_usage_errors.sql" with { type: "text" }
import noUsageFailures from "./0117_no_usage_failures.sql" with { type: "text" }
import profitModels from "./0118_profit_models.sql" with { type: "text" }
import paidAfterClosing from "./0119_paid_after_closing.sql" with { type: "text" }
import webhooksByAccount from "./0120_webhooks_by_account.sql" with { type: "text" }
import claims from "./0121_claims.sql" with { type: "text" }
import renewedCodes from "./0122_renewed_codes.sql" with { type: "text" }
import endedSessions from "./0123_ended_sessions.sql" with { type: "text" }
import restOfReversals from "./0124_rest_of_reversals.sql" with { type: "text" }
import freezesByLoket from "./0125_freezes_by_loket.sql" with { type: "text" }

export interface Migration {
  readonly name: string
  /**
   * One transaction; or, where it makes or drops an index concurrently, that one statement, which must change nothing where
   * it was carried out before (docs/migrations.md).
   */
  readonly sql: string
  /** SHA-256 of texts that it had in earlier releases, and that came to the same schema. */
  readonly formerly?: readonly string[]
}

export const migrations: readonly Migration[] = [
  { name: "0001_foundation.sql", sql: foundation },
  { name: "0002_aliases.sql", sql: aliases },
  { name: "0003_usage_markers.sql", sql: usageMarkers },
  { name: "0004_shared_leases.sql", sql: sharedLeases },
  { name: "0005_reconciliations.sql", sql: reconciliations },
  { name: "0006_payments.sql", sql: payments },
  { name: "0007_operator.sql", sql: operator },
  { name: "0008_serving_processes.sql", sql: servingProcesses },
  { name: "0009_people.sql", sql: people },
  {
    name: "0010_usage_hours.sql",
    sql: usageHours,
    // Kept everybody from writing for half a minute a million records.
    formerly: ["2de3223ef05d252f7ef4d825736f82ee54fab462717f40ff75386b340cde1bda"],
  },
  { name: "0011_key_secrets.sql", sql: keySecrets },
  { name: "0012_low_balance_mails.sql", sql: lowBalanceMails },
  { name: "0013_lease_versions.sql", sql: leaseVersions },
  { name: "0014_fallback_and_running_periods.sql", sql: fallbackAndRunningPeriods },
  { name: "0015_bounded_accounts.sql", sql: boundedAccounts },
  { name: "0016_excess_counts.sql", sql: excessCounts },
  { name: "0018_request_fields.sql", sql: requestFields },
  { name: "0019_estimate_factors.sql", sql: estimateFactors },
  { name: "0020_book.sql", sql: book },
  { name: "0030_gathered_answers.sql", sql: gatheredAnswers },
  { name: "0031_usage_failures.sql", sql: usageFailures },
  { name: "0035_pools.sql", sql: pools },
  { name: "0036_costs.sql", sql: costs },
  { name: "0037_profit_hours.sql", sql: profitHours },
  { name: "0038_member_settings.sql", sql: memberSettings },
  { name: "0040_other_debits.sql", sql: otherDebits },
  { name: "0041_idempotency_keys.sql", sql: idempotencyKeys },
  { name: "0042_refused_calls.sql", sql: refusedCalls },
  { name: "0043_refunds.sql", sql: refunds },
  { name: "0044_documents.sql", sql: documents },
  { name: "0045_account_mails.sql", sql: accountMails },
  { name: "0046_second_factors.sql", sql: secondFactors },
  { name: "0047_operator_roles.sql", sql: operatorRoles },
  { name: "0048_agreements.sql", sql: agreements },
  { name: "0049_alerts.sql", sql: alerts },
  { name: "0050_announcements.sql", sql: announcements },
  { name: "0051_profit_days.sql", sql: profitDays },
  { name: "0052_mails_by_expiry.sql", sql: mailsByExpiry },
  { name: "0053_shown_balances.sql", sql: shownBalances },
  { name: "0054_passkeys.sql", sql: passkeys },
  { name: "0057_runs.sql", sql: runs },
  { name: "0057_usage_of_runs.sql", sql: usageOfRuns },
  { name: "0058_bound_keys.sql", sql: boundKeys },
  { name: "0060_account_events.sql", sql: accountEvents },
  { name: "0061_spending_alerts.sql", sql: spendingAlerts },
  { name: "0062_breakers.sql", sql: breakers },
  { name: "0063_child_keys.sql", sql: childKeys },
  { name: "0064_children_of_keys.sql", sql: childrenOfKeys },
  { name: "0065_members.sql", sql: members },
  { name: "0067_replayed_retries.sql", sql: replayedRetries },
  { name: "0068_history_of_limits.sql", sql: historyOfLimits },
  { name: "0069_house_sums.sql", sql: houseSums },
  { name: "0070_proofs.sql", sql: proofs },
  { name: "0071_credits.sql", sql: credits },
  { name: "0072_no_index_of_revenue.sql", sql: noIndexOfRevenue },
  { name: "0073_bound_of_usage.sql", sql: boundOfUsage },
  { name: "0074_bound_of_usage_holds.sql", sql: boundOfUsageHolds },
  { name: "0075_months_of_usage.sql", sql: monthsOfUsage },
  { name: "0076_archives.sql", sql: archives },
  { name: "0077_latency_hours.sql", sql: latencyHours },
  { name: "0079_trial_credits.sql", sql: trialCredits },
  { name: "0081_more_endpoints.sql", sql: moreEndpoints },
  { name: "0082_key_origins.sql", sql: keyOrigins },
  { name: "0082_origins_of_keys.sql", sql: originsOfKeys },
  { name: "0083_see_as.sql", sql: seeAs },
  { name: "0084_backend_history.sql", sql: backendHistory },
  { name: "0086_archived_calls.sql", sql: archivedCalls },
  { name: "0088_trial_credits_kept.sql", sql: trialCreditsKept },
  { name: "0089_charges.sql", sql: charges },
  { name: "0090_charges_are_booked.sql", sql: chargesAreBooked },
  { name: "0091_usage_spans.sql", sql: usageSpans },
  { name: "0094_status_notes.sql", sql: statusNotes },
  { name: "0095_calls_of_keys.sql", sql: callsOfKeys },
  { name: "0096_records_are_charges.sql", sql: recordsAreCharges },
  { name: "0097_customer_days.sql", sql: customerDays },
  { name: "0098_no_spans_without_calls.sql", sql: noSpansWithoutCalls },
  { name: "0100_calls_of_accounts.sql", sql: callsOfAccounts },
  { name: "0101_narrow_months.sql", sql: narrowMonths },
  { name: "0110_profit_accounts.sql", sql: profitAccounts },
  { name: "0111_backend_middles.sql", sql: backendMiddles },
  { name: "0112_paid_top_ups.sql", sql: paidTopUps },
  { name: "0113_usage_groups.sql", sql: usageGroups },
  { name: "0114_newest_charges.sql", sql: newestCharges },
  { name: "0115_model_customers.sql", sql: modelCustomers },
  { name: "0116_usage_errors.sql", sql: usageErrors },
  { name: "0117_no_usage_failures.sql", sql: noUsageFailures },
  { name: "0118_profit_models.sql", sql: profitModels },
  { name: "0119_paid_after_closing.sql", sql: paidAfterClosing },
  { name: "0120_webhooks_by_account.sql", sql: webhooksByAccount },
  { name: "0121_claims.sql", sql: claims },
  { name: "0122_renewed_codes.sql", sql: renewedCodes },
  { name: "0123_ended_sessions.sql", sql: endedSessions },
  { name: "0124_rest_of_reversals.sql", sql: restOfReversals },
  { name: "0125_freezes_by_loket.sql", sql: freezesByLoket },
]
