/** Rows of a CSV file (RFC 4180), as a spreadsheet opens it. */

export const csvLine = (cells: readonly (string | number | bigint)[]): string => `${cells.map(csvCell).join(",")}\r\n`

/** A spreadsheet runs a cell that starts like a formula, so such cells get a leading apostrophe, unless they are a number. */
function csvCell(value: string | number | bigint): string {
  if (typeof value !== "string") return String(value)
  const safe = /^[=+\-@\t\r]/.test(value) && !/^-?\d+(?:\.\d+)?$/.test(value) ? `'${value}` : value
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
