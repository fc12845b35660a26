/** What a reconciliation found, for a person at a terminal and for machines. Money in micro-rupiah, and in rupiah beside it. */
import { micro, microToRupiah } from "../../actors/money/micro.ts"
import { type Difference, differencesIn, type Finding, notComparedIn } from "./finding.ts"
import type { Reconciliation } from "./reconcile.ts"

export function reportText({ id, since, findings, frozen }: Reconciliation): string {
  const width = Math.max(...findings.map(({ claim }) => claim.length))
  const row = (claim: string, compared: string, differences: string) =>
    `${claim.padEnd(width)}  ${compared.padStart(12)}  ${differences.padStart(11)}`
  const differences = differencesIn(findings)
  return [
    row(`reconciliation ${id}`, "compared", "differences"),
    ...findings.map(({ claim, compared, differences }) => row(claim, count(compared), count(differences))),
    ...findings.flatMap(differencesText),
    "",
    ...(since === undefined
      ? []
      : [`of what is new since ${since.toISOString()}, when all before agreed; everything with --full`]),
    ...(notComparedIn(findings) > 0
      ? [`${count(notComparedIn(findings))} top-ups not compared: their provider gave no answer, or keeps no list`]
      : []),
    ...(frozen.length > 0 ? [`frozen: ${frozen.join(" ")}`] : []),
    differences === 0 ? "all agrees" : `${count(differences)} differences`,
  ].join("\n")
}

function differencesText({ claim, differences, shown }: Finding): string[] {
  if (differences === 0) return []
  const left = differences - shown.length
  const more = left > 0 ? [`  and ${count(left)} more`] : []
  return ["", `not so: ${claim}`, ...shown.map(differenceText), ...more]
}

const differenceText = ({ accountId, figures, mended }: Difference): string =>
  [
    `  ${accountId ?? "the house's books"}${mended ? ", mended" : ""}:`,
    ...Object.entries(figures).map(([name, value]) => `    ${name} ${figureText(name, value)}`),
  ].join("\n")

const figureText = (name: string, value: string | null): string => {
  if (value === null) return "nothing"
  return name.endsWith("_micro") && /^-?\d+$/.test(value)
    ? `${value} (Rp ${microToRupiah(micro(BigInt(value)))})`
    : value
}

const count = (value: number): string => value.toLocaleString("en-US")

export const reportJson = ({ id, since, findings, frozen }: Reconciliation): string =>
  JSON.stringify({
    reconciliation: Number(id),
    since: since?.toISOString() ?? null,
    differences: differencesIn(findings),
    not_compared: notComparedIn(findings),
    frozen,
    claims: findings.map(({ claim, compared, notCompared, differences, shown }) => ({
      claim,
      compared,
      not_compared: notCompared,
      differences,
      shown: shown.map(({ accountId, figures, mended }) => ({ account_id: accountId, ...figures, mended })),
    })),
  })
