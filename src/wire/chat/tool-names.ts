/**
 * Tool names towards a chat backend, and the way back. Chat takes 1 to 64 letters, digits, `_` and `-`; other formats
 * take longer names and other characters. A name that chat takes is never changed; another keeps its beginning and gets
 * a piece of its hash. The rule needs nothing but the prompt, so whoever reads the answer finds the way back without
 * any state, and a name is written alike in every turn of a conversation (a backend's cache depends on it).
 */
import type { Prompt } from "../../language/prompt.ts"

const TAKEN_BY_CHAT = /^[a-zA-Z0-9_-]{1,64}$/
const LONGEST = 64
const HASH_DIGITS = 8

export interface ToolNames {
  /** What a chat backend is told. */
  written(name: string): string
  /** What the client calls it. A name that was not written is the model's own idea, and stays. */
  original(written: string): string
  /** Whether the client's tool of this (original) name takes free text. */
  isCustom(name: string): boolean
}

export function toolNames(prompt: Prompt): ToolNames {
  const byName = new Map<string, string>()
  const byWritten = new Map<string, string>()
  const names = namesIn(prompt)
  // The names that need no change come first, so that no shortened one takes theirs.
  for (const name of names.filter(takenByChat).concat(names.filter((name) => !takenByChat(name)))) {
    let written = chatName(name)
    while ((byWritten.get(written) ?? name) !== name) written = shortened(written, name)
    byName.set(name, written)
    byWritten.set(written, name)
  }
  const custom = new Set(prompt.tools.flatMap((tool) => (tool.type === "custom" ? [tool.name] : [])))
  return {
    written: (name) => byName.get(name) ?? chatName(name),
    original: (written) => byWritten.get(written) ?? written,
    isCustom: (name) => custom.has(name),
  }
}

/** The name itself where chat takes it. */
export const chatName = (name: string): string => (takenByChat(name) ? name : shortened(name, name))

const takenByChat = (name: string): boolean => TAKEN_BY_CHAT.test(name)

function shortened(name: string, hashed: string): string {
  const hash = new Bun.CryptoHasher("sha256").update(`${name}\n${hashed}`).digest("hex").slice(0, HASH_DIGITS)
  const kept = name.replace(/[^a-zA-Z0-9_-]/g, "_").slice(0, LONGEST - HASH_DIGITS - 1)
  return `${kept}_${hash}`
}

/** Every tool that the prompt speaks of, those that were only called earlier too. */
function namesIn(prompt: Prompt): string[] {
  const names = new Set<string>()
  for (const tool of prompt.tools) if (tool.type !== "web-search") names.add(tool.name)
  if (prompt.toolChoice?.kind === "tool") names.add(prompt.toolChoice.name)
  for (const turn of prompt.turns) {
    if (turn.role !== "assistant") continue
    for (const part of turn.parts) if (part.type === "tool-call") names.add(part.name)
  }
  return [...names]
}
