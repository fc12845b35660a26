/** A setting that is on or off, and takes effect at once. */
import { Switch as BaseSwitch } from "@base-ui/react/switch"

interface SwitchProps {
  readonly label: string
  readonly checked: boolean
  readonly onChange: (checked: boolean) => void
  readonly disabled?: boolean
}

export const Switch = ({ label, checked, onChange, disabled = false }: SwitchProps) => (
  <label className="switch-label">
    <BaseSwitch.Root className="switch" checked={checked} onCheckedChange={onChange} disabled={disabled}>
      <BaseSwitch.Thumb className="switch-thumb" />
    </BaseSwitch.Root>
    {label}
  </label>
)
