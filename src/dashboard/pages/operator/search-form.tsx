/** What a list is searched for: asked when it is sent, and then part of the address. */
import { Search, X } from "lucide-react"
import { type FormEvent, useState } from "react"
import { Button, IconButton } from "../../components/button.tsx"
import { TextField } from "../../components/field.tsx"
import { useOperatorText } from "./text.ts"

interface SearchFormProps {
  readonly label: string
  readonly hint?: string
  readonly placeholder?: string
  readonly value: string
  readonly onSearch: (value: string) => void
}

/** Begins anew when the address says something else. */
export const SearchForm = (props: SearchFormProps) => <Form key={props.value} {...props} />

function Form({ label, hint, placeholder, value, onSearch }: SearchFormProps) {
  const text = useOperatorText()
  const [written, setWritten] = useState(value)
  const send = (event: FormEvent) => {
    event.preventDefault()
    onSearch(written.trim())
  }
  return (
    <search>
      <form className="operator-search" onSubmit={send}>
        <TextField
          label={label}
          hint={hint}
          placeholder={placeholder}
          maxLength={254}
          autoComplete="off"
          spellCheck={false}
          before={<Search aria-hidden="true" />}
          after={
            value === "" ? undefined : (
              <IconButton size="small" label={text.clear} onClick={() => onSearch("")}>
                <X />
              </IconButton>
            )
          }
          value={written}
          onChange={({ target }) => setWritten(target.value)}
        />
        <Button type="submit">{text.search}</Button>
      </form>
    </search>
  )
}
