/** The account's time zone, found by typing a part of its name; kept as soon as one is chosen. */
import { Combobox } from "@base-ui/react/combobox"
import { useMutation, useQueryClient } from "@tanstack/react-query"
import { Check, ChevronDown } from "lucide-react"
import { useMemo } from "react"
import { accountQuery } from "../../api/queries.ts"
import { ErrorState } from "../../components/error-state.tsx"
import { Field } from "../../components/field.tsx"
import { useToasts } from "../../components/toast.tsx"
import { useLanguage } from "../../i18n/language.tsx"
import { useAccount } from "../../shell/session.tsx"
import { changeAccount } from "./data.ts"
import { useSettingsText } from "./text.ts"
import { describeZone, timeZonesWith, zoneMatches, zoneName } from "./time-zones.ts"

export function TimeZoneField() {
  const text = useSettingsText()
  const toasts = useToasts()
  const client = useQueryClient()
  const { language } = useLanguage()
  const { time_zone: own } = useAccount()
  const zones = useMemo(() => timeZonesWith(own), [own])
  const change = useMutation({
    mutationFn: (zone: string) => changeAccount({ time_zone: zone }),
    onSuccess: (account) => {
      client.setQueryData(accountQuery.queryKey, account)
      // Days begin elsewhere now.
      void client.invalidateQueries({ queryKey: ["usage"] })
      void client.invalidateQueries({ queryKey: ["summary"] })
      toasts.done(text.saved)
    },
  })
  return (
    <>
      <Combobox.Root
        items={zones}
        value={own}
        onValueChange={(zone: string | null) => {
          if (zone !== null && zone !== own) change.mutate(zone)
        }}
        itemToStringLabel={zoneName}
        filter={(zone: string, query) => zoneMatches(zone, query, language)}
        autoHighlight
      >
        <Field label={text.timeZone} hint={text.timeZoneHint}>
          {(attributes) => (
            <Combobox.InputGroup className="input">
              {/* Named a second time: while the list is open, all around it is hidden from screen readers, the label too. */}
              <Combobox.Input
                {...attributes}
                aria-label={text.timeZone}
                placeholder={text.timeZoneSearch}
                autoComplete="off"
              />
              <Combobox.Trigger className="zone-trigger" aria-label={text.timeZones}>
                <ChevronDown />
              </Combobox.Trigger>
            </Combobox.InputGroup>
          )}
        </Field>
        <Combobox.Portal>
          <Combobox.Positioner className="zones-place" sideOffset={4}>
            <Combobox.Popup className="zones" aria-label={text.timeZones}>
              <Combobox.Empty className="zones-none">{text.timeZoneNone}</Combobox.Empty>
              <Combobox.List className="zones-list">
                {(zone: string) => (
                  <Combobox.Item key={zone} value={zone} className="zone">
                    <span>
                      {zoneName(zone)}
                      <small>{describeZone(zone, language)}</small>
                    </span>
                    <Combobox.ItemIndicator>
                      <Check />
                    </Combobox.ItemIndicator>
                  </Combobox.Item>
                )}
              </Combobox.List>
            </Combobox.Popup>
          </Combobox.Positioner>
        </Combobox.Portal>
      </Combobox.Root>
      {change.error !== null && <ErrorState error={change.error} />}
    </>
  )
}
