/** Text for a terminal or a file, to be copied whole. Can be scrolled by keyboard. */
import { CopyButton } from "./copy-button.tsx"

interface CodeBlockProps {
  readonly code: string
  /** Where it belongs: "Terminal", "~/.codex/config.toml". */
  readonly title: string
}

export const CodeBlock = ({ code, title }: CodeBlockProps) => (
  <figure className="code-block">
    <figcaption>
      <span>{title}</span>
      <CopyButton text={code} what={title} />
    </figcaption>
    {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls must be reachable by keyboard */}
    <pre tabIndex={0} aria-label={title}>
      <code>{code}</code>
    </pre>
  </figure>
)
