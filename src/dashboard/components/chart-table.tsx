/** A chart's numbers as a table: seen by screen readers alone. */
import type { ChartProps } from "./chart-props.ts"

export const ChartTable = ({ caption, labels, series, format }: ChartProps) => (
  <div className="visually-hidden">
    <table>
      <caption>{caption}</caption>
      <thead>
        <tr>
          <td />
          {series.map(({ name }) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {labels.map((label, step) => (
          <tr key={label}>
            <th scope="row">{label}</th>
            {series.map(({ name, values }) => {
              const value = values[step]
              return <td key={name}>{value === null || value === undefined ? "" : format(value)}</td>
            })}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
)
