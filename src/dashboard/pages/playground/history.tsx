/**
 * Conversations that this browser keeps, in its IndexedDB, and that are never sent anywhere. They are kept by person and account:
 * whoever else signs in here does not see them, and they are deleted when somebody signs out (`shell/session.tsx`).
 */
import { Trash2 } from "lucide-react"
import { useEffect, useRef, useState } from "react"
import { Button, IconButton } from "../../components/button.tsx"
import { Drawer } from "../../components/dialog.tsx"
import { EmptyState, Skeleton } from "../../components/feedback.tsx"
import { useFormat } from "../../i18n/format.ts"
import { deleteConversations, type Kept, keepConversation, keptConversations } from "../../api/kept-conversations.ts"
import { useAccount } from "../../shell/session.tsx"
import type { Exchange } from "./conversation.ts"
import { usePlaygroundText } from "./text.ts"

export type KeptConversation = Kept<Exchange>

/** The person and the account that conversations belong to. */
function useOwner(): string {
  const { id, signed_in: person } = useAccount()
  return `${person.id}/${id}`
}

const newId = (): string => crypto.randomUUID()

/** Keeps the conversation whenever an answer has ended. `begin` names the next one. */
export function useHistory(
  exchanges: readonly Exchange[],
  settings: { readonly model: string; readonly system: string },
) {
  const owner = useOwner()
  const [id, setId] = useState(newId)
  const { model, system } = settings
  const saved = useRef<string>(undefined)
  const ended = exchanges.filter(({ state, answer }) => (state === "answered" || state === "stopped") && answer !== "")
  const signature = `${id} ${ended.map((exchange) => exchange.id).join()}`
  useEffect(() => {
    if (ended.length === 0 || saved.current === signature) return
    saved.current = signature
    void keepConversation({ id, owner, at: Date.now(), model, system, exchanges: ended })
  })
  /** A kept conversation that is gone on from, or a new one. */
  const begin = (from?: KeptConversation) => {
    const next = from?.id ?? newId()
    saved.current = `${next} ${from?.exchanges.map((exchange) => exchange.id).join() ?? ""}`
    setId(next)
  }
  return { begin }
}

interface HistoryProps {
  readonly onOpen: (conversation: KeptConversation) => void
  readonly onClose: () => void
}

export function HistoryDrawer({ onOpen, onClose }: HistoryProps) {
  const text = usePlaygroundText()
  const format = useFormat()
  const owner = useOwner()
  const [kept, setKept] = useState<readonly KeptConversation[]>()
  useEffect(() => {
    void keptConversations<Exchange>(owner).then(setKept)
  }, [owner])
  const remove = async (id?: string) => {
    await deleteConversations((each) => each.owner === owner && (id === undefined || each.id === id))
    setKept(await keptConversations(owner))
  }
  return (
    <Drawer
      title={text.history}
      onClose={onClose}
      footer={
        kept !== undefined &&
        kept.length > 0 && (
          <Button icon={<Trash2 />} onClick={() => void remove()}>
            {text.deleteAll}
          </Button>
        )
      }
    >
      <p className="field-hint">{text.historyHint}</p>
      {kept === undefined ? (
        <Skeleton lines={4} />
      ) : kept.length === 0 ? (
        <EmptyState title={text.noHistory} />
      ) : (
        <ul className="playground-history">
          {kept.map((conversation) => {
            const title = conversation.exchanges[0]?.question.split("\n")[0] || text.image(1)
            return (
              <li key={conversation.id}>
                <button type="button" onClick={() => onOpen(conversation)}>
                  <span>{title}</span>
                  <small>
                    {conversation.model}, {format.dateTime(conversation.at)}
                  </small>
                </button>
                <IconButton label={text.deleteOne(title.slice(0, 40))} onClick={() => void remove(conversation.id)}>
                  <Trash2 />
                </IconButton>
              </li>
            )
          })}
        </ul>
      )}
    </Drawer>
  )
}
