/** A conversation: each question, its answer, and how the answer ended. What has an answer is kept, at the end of this file. */
import { queryOptions, useQueries } from "@tanstack/react-query"
import { useCallback, useEffect, useReducer, useRef, useState } from "react"
import { Trash2 } from "lucide-react"
import { api, ApiFailure, mayRetry, unwrap } from "../../api/client.ts"
import { deleteConversations, keepConversation, type Kept, keptConversations } from "../../api/browser.ts"
import { Button, IconButton } from "../../components/button.tsx"
import { Drawer } from "../../components/dialog.tsx"
import { EmptyState, Skeleton } from "../../components/feedback.tsx"
import { useFormat } from "../../i18n/language.tsx"
import { useAccount } from "../../shell/session.tsx"
import { answerTo, type Sampling, type Message, messageOf, type Piece, type Question, type Words } from "./stream.ts"
import { usePlaygroundText } from "./text.ts"

export interface Exchange extends Words {
  readonly id: number
  readonly model: string
  readonly thinking: string
  readonly answer: string
  /** Once the call has been accepted. */
  readonly requestId: string | undefined
  readonly state: "asking" | "answered" | "stopped" | "failed"
  /** The answer reached its limit. */
  readonly cutOff: boolean
  readonly failure: Error | undefined
}

type Change =
  | ({ readonly type: "asked"; readonly id: number; readonly model: string } & Words)
  | { readonly type: "piece"; readonly id: number; readonly piece: Piece }
  | { readonly type: "ended"; readonly id: number; readonly state: "answered" | "stopped" }
  | { readonly type: "failed"; readonly id: number; readonly failure: Error }
  | { readonly type: "dropped"; readonly id: number }
  | { readonly type: "begun"; readonly exchanges: readonly Exchange[] }

function changed(exchanges: readonly Exchange[], change: Change): readonly Exchange[] {
  if (change.type === "begun") return change.exchanges
  if (change.type === "dropped") return exchanges.filter(({ id }) => id !== change.id)
  if (change.type === "asked") {
    const { id, question, images, model } = change
    const begun = { thinking: "", answer: "", requestId: undefined, state: "asking", cutOff: false, failure: undefined }
    return [...exchanges, { id, question, images, model, ...begun } as Exchange]
  }
  return exchanges.map((exchange) =>
    exchange.id === change.id ? { ...exchange, ...after(exchange, change) } : exchange,
  )
}

function after(
  exchange: Exchange,
  change: Exclude<Change, { type: "asked" | "dropped" | "begun" }>,
): Partial<Exchange> {
  if (change.type === "ended") return { state: change.state }
  if (change.type === "failed") return { state: "failed", failure: change.failure }
  const { piece } = change
  if (piece.type === "begun") return { requestId: piece.requestId }
  if (piece.type === "text") return { answer: exchange.answer + piece.text }
  if (piece.type === "thinking") return { thinking: exchange.thinking + piece.text }
  return { cutOff: piece.cutOff }
}

/** The messages for the model: the system prompt, and all exchanges with at least part of an answer. */
function messagesOf(system: string, before: readonly Exchange[], words: Words): readonly Message[] {
  const answered = before.filter(({ answer }) => answer !== "")
  return [
    ...(system.trim() === "" ? [] : [{ role: "system" as const, content: system }]),
    ...answered.flatMap((exchange) => [messageOf(exchange), { role: "assistant" as const, content: exchange.answer }]),
    messageOf(words),
  ]
}

interface Asking extends Sampling, Words, Pick<Question, "key" | "model"> {
  readonly system: string
  /** The id of the exchange that this one replaces. */
  readonly instead?: number
}

export interface Conversation {
  readonly exchanges: readonly Exchange[]
  readonly busy: boolean
  /** What would be sent with another question, or with one in the place of that exchange. */
  readonly messages: (system: string, words: Words, instead?: number) => readonly Message[]
  readonly ask: (asking: Asking) => void
  readonly stop: () => void
  /** Ends the answer that is under way, and goes on from these exchanges: none for a new conversation. */
  readonly begin: (exchanges: readonly Exchange[]) => void
}

export function useConversation(): Conversation {
  const [exchanges, dispatch] = useReducer(changed, [])
  const underWay = useRef<AbortController>(undefined)
  const lastId = useRef(0)
  const stop = useCallback(() => underWay.current?.abort(), [])
  useEffect(() => stop, [stop])
  const ask = ({ system, question, images, instead, ...asking }: Asking) => {
    const id = ++lastId.current
    const controller = new AbortController()
    underWay.current = controller
    const before = exchanges.filter((exchange) => exchange.id !== instead)
    if (instead !== undefined) dispatch({ type: "dropped", id: instead })
    dispatch({ type: "asked", id, question, images, model: asking.model })
    const messages = messagesOf(system, before, { question, images })
    // The exchanges of another conversation may have the same ids.
    const tell = (change: Change) => underWay.current === controller && dispatch(change)
    void listen({ ...asking, messages, signal: controller.signal }, (piece) => tell({ type: "piece", id, piece })).then(
      (state) => tell({ type: "ended", id, state }),
      (failure: Error) => tell({ type: "failed", id, failure }),
    )
  }
  const begin = (from: readonly Exchange[]) => {
    stop()
    underWay.current = undefined
    lastId.current = Math.max(lastId.current, ...from.map(({ id }) => id))
    dispatch({ type: "begun", exchanges: from })
  }
  const messages = (system: string, words: Words, instead?: number) =>
    messagesOf(
      system,
      exchanges.filter(({ id }) => id !== instead),
      words,
    )
  return { exchanges, busy: exchanges.some(({ state }) => state === "asking"), messages, ask, stop, begin }
}

/** Follows an answer to its end. Throws its failure. */
async function listen(question: Question, heard: (piece: Piece) => void): Promise<"answered" | "stopped"> {
  try {
    for await (const piece of answerTo(question)) heard(piece)
    return "answered"
  } catch (error) {
    if (question.signal.aborted) return "stopped"
    throw error
  }
}

/**
 * A usage record exists a moment after its stream has ended. A call that was stopped is read on to its end, for at most a
 * minute, and settled then (decisions §6).
 */
const MAX_POLLS = 75
const POLL_MS = 1_000

const isMissing = (error: Error) => error instanceof ApiFailure && error.code === "usage.not_found"

const receiptQuery = (requestId: string) =>
  queryOptions({
    queryKey: ["receipt", requestId],
    queryFn: () => unwrap(api.usage({ request_id: requestId }).get()),
    staleTime: Infinity,
    retry: (failures, error) => (isMissing(error) ? failures < MAX_POLLS : mayRetry(failures, error)),
    retryDelay: POLL_MS,
  })
export type Receipt = Awaited<ReturnType<NonNullable<ReturnType<typeof receiptQuery>["queryFn"]>>>

export interface Receipts {
  /** By request id; undefined while it is loading. */
  readonly of: ReadonlyMap<string, { readonly data: Receipt | undefined; readonly error: Error | null }>
  readonly chargeMicro: bigint
  readonly calls: number
}

/** The receipts of the calls that were accepted and have ended. */
export function useReceipts(exchanges: readonly Exchange[]): Receipts {
  const ids = exchanges.flatMap(({ requestId, state }) => (requestId && state !== "asking" ? [requestId] : []))
  const asked = useQueries({ queries: ids.map(receiptQuery) })
  const found = asked.flatMap(({ data }) => data ?? [])
  return {
    of: new Map(ids.map((id, index) => [id, { data: asked[index]?.data, error: asked[index]?.error ?? null }])),
    chargeMicro: found.reduce((sum, { charge_micro: charge }) => sum + BigInt(charge), 0n),
    calls: found.length,
  }
}

/**
 * Conversations that this browser keeps, in its IndexedDB, and that are never sent anywhere. They are kept by person and account:
 * whoever else signs in here does not see them, and they are deleted when somebody signs out (`shell/session.tsx`).
 */
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
