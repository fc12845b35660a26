/** What keys and formats are called. */
import { useQuery } from "@tanstack/react-query"
import { useCallback, useMemo } from "react"
import { namedKeysQuery } from "../../api/queries.ts"
import { formats, type Split } from "./address.ts"
import { useUsageText } from "./text.ts"

/** A key's name; its id while the names are on their way. */
export function useKeyName(): (id: string) => string {
  const { data: keys } = useQuery(namedKeysQuery)
  const names = useMemo(() => new Map(keys?.map(({ id, name }) => [id, name])), [keys])
  return useCallback((id) => names.get(id) ?? id, [names])
}

export function useFormatName(): (format: string) => string {
  const text = useUsageText()
  return useCallback(
    (format) => {
      const known = formats.find((one) => one === format)
      return known === undefined ? format : text.formats[known]
    },
    [text],
  )
}

/** Of what a group is of. */
export function useGroupName(split: Split | undefined): (group: string) => string {
  const keyName = useKeyName()
  const formatName = useFormatName()
  return useCallback(
    (group) => (split === "key" ? keyName(group) : split === "format" ? formatName(group) : group),
    [split, keyName, formatName],
  )
}
