/** What a model wrote: plain text, with its code set apart. Nothing of it is ever taken for markup of the page. */
import { CodeBlock } from "../../components/code-block.tsx"
import { codeIn, piecesIn } from "./fences.ts"
import { usePlaygroundText } from "./text.ts"

export function Prose({ text }: { readonly text: string }) {
  const words = usePlaygroundText()
  return piecesIn(text).map((piece, index) =>
    piece.type === "code" ? (
      // oxlint-disable-next-line react/no-array-index-key -- pieces are only ever added at the end
      <CodeBlock key={index} title={piece.language === "" ? words.code : piece.language} code={piece.text} />
    ) : (
      // oxlint-disable-next-line react/no-array-index-key -- as above
      <p key={index} className="prose-text">
        {codeIn(piece.text).map((part, at) =>
          // oxlint-disable-next-line react/no-array-index-key -- as above
          part.isCode ? <code key={at}>{part.text}</code> : part.text,
        )}
      </p>
    ),
  )
}
