/** What a chart is given. */
export interface Series {
  readonly name: string
  /** One for each label; null where there is none. */
  readonly values: readonly (number | null)[]
}

export interface ChartProps {
  readonly caption: string
  readonly kind: "bars" | "lines"
  /** Of the steps, as they are shown: "21 Nov". */
  readonly labels: readonly string[]
  readonly series: readonly Series[]
  readonly format: (value: number) => string
  /** Pixels. */
  readonly height?: number
}
