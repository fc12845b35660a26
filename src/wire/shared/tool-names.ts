/**
 * Tool names towards a backend, and the way back. Backends take letters, digits, `_` and `-`, up to a length; clients' formats
 * take longer names and other characters. A name that the backend takes is never changed; another keeps its beginning and gets
 * a piece of its hash, and two names are never written alike. The rule needs nothing but the prompt, so whoever reads the
 * answer finds the way back without any state, and a name is written alike in every turn of a conversation (a backend's cache
 * depends on it).
 */
import type { Prompt } from "../../language/prompt.ts"

/** Lengths, in characters. */
export interface NameLimits {
  /** A name up to this is left alone, where its characters are taken. */
  readonly longest: number
  /** What another name is shortened to. */
  readonly shortened: number
}

/** What the narrowest formats take: chat, Converse, the names of schemas. */
export const NARROW: NameLimits = { longest: 64, shortened: 64 }

const HASH_DIGITS = 8

export interface ToolNames {
  /** What the backend is told. */
  written(name: string): string
  /** What the client calls it. A name that was not written is the model's own idea, and stays. */
  original(written: string): string
  /** Whether the client's tool of this (original) name takes free text. */
  isCustom(name: string): boolean
}

export function toolNames(prompt: Prompt, limits: NameLimits): ToolNames {
  const byName = new Map<string, string>()
  const byWritten = new Map<string, string>()
  const names = namesIn(prompt)
  const [taken, others] = [
    names.filter((name) => isTaken(name, limits)),
    names.filter((name) => !isTaken(name, limits)),
  ]
  // The names that need no change come first, so that no shortened one takes theirs.
  for (const name of [...taken, ...others]) {
    let written = writtenName(name, limits)
    while ((byWritten.get(written) ?? name) !== name) written = shortened(name, `${written}\n${name}`, limits)
    byName.set(name, written)
    byWritten.set(written, name)
  }
  const custom = new Set(prompt.tools.flatMap((tool) => (tool.type === "custom" ? [tool.name] : [])))
  return {
    written: (name) => byName.get(name) ?? writtenName(name, limits),
    original: (written) => byWritten.get(written) ?? written,
    isCustom: (name) => custom.has(name),
  }
}

/** The name itself where it is taken. */
export const writtenName = (name: string, limits: NameLimits): string =>
  isTaken(name, limits) ? name : shortened(name, name, limits)

const isTaken = (name: string, { longest }: NameLimits): boolean =>
  name.length <= longest && /^[a-zA-Z0-9_-]+$/.test(name)

/** `hashed` tells apart what would be shortened alike. */
function shortened(name: string, hashed: string, limits: NameLimits): string {
  const hash = new Bun.CryptoHasher("sha256").update(hashed).digest("hex").slice(0, HASH_DIGITS)
  const kept = name.replace(/[^a-zA-Z0-9_-]/g, "_").slice(0, limits.shortened - HASH_DIGITS - 1)
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
