/**
 * What the matrix asks and is answered, in words of its own: neither a wire format nor the gateway's neutral language,
 * so that what is read off the wire is held against something that the code under test had no part in.
 */
import { expect } from "bun:test"
import type { JsonObject } from "../../src/language/json.ts"
import type { Translated } from "../../src/language/request.ts"

export type Part =
  | { readonly text: string }
  /** An address, which for data is a `data:` URL. */
  | { readonly image: string }
  | { readonly thinking: string; readonly seal?: string | undefined }
  /** `given` is JSON, or free text for a custom tool. */
  | { readonly call: string; readonly name: string; readonly given: string; readonly custom?: true }
  | { readonly result: string; readonly says: readonly Part[]; readonly failed?: true }

export interface Turn {
  readonly role: "user" | "assistant" | "system"
  readonly parts: readonly Part[]
}

export type Tool =
  | { readonly name: string; readonly schema: JsonObject }
  | { readonly name: string; readonly custom: true }
  | { readonly search: string }

/** A request. What a format writes in several ways is written in the one that `as` names, and read alike. */
export interface Asked {
  readonly system?: readonly string[] | undefined
  readonly turns: readonly Turn[]
  readonly tools?: readonly Tool[] | undefined
  readonly choice?: "auto" | "none" | "required" | { readonly name: string } | undefined
  readonly oneCall?: boolean | undefined
  readonly stops?: readonly string[] | undefined
  readonly limit?: number | undefined
  readonly temperature?: number | undefined
  readonly topP?: number | undefined
  readonly topK?: number | undefined
  readonly thinking?: "adaptive" | "off" | undefined
  readonly effort?: string | undefined
  readonly budget?: number | undefined
  readonly schema?: JsonObject | undefined
  readonly json?: boolean | undefined
  readonly user?: string | undefined
  readonly answers?: number | undefined
  readonly as?: { readonly system?: "blocks" | "developer"; readonly results?: "blocks" }
}

/** An answer. `finish` is the format's own word. */
export interface Answer {
  readonly thinking: string
  readonly seal: string | undefined
  readonly text: string
  readonly refusal: string
  readonly calls: readonly {
    readonly id: string
    readonly name: string
    readonly given: string
    readonly custom: boolean
  }[]
  readonly finish: string
  /** The stop sequence that ended it, where the format tells. */
  readonly stop: string | undefined
  readonly usage: {
    readonly input: number
    readonly cacheRead: number
    readonly cacheWrite: number
    readonly output: number
  }
  /** What the client sends back of it when the conversation goes on. */
  readonly turn: readonly JsonObject[]
}

/** One wire format, as its documentation has it: every reader checks the shape that the vendor's clients rely on. */
export interface Speaker {
  readonly endpoint: Translated
  readonly path: string
  write(asked: Asked): JsonObject
  read(body: JsonObject): Asked
  answer(whole: JsonObject): Answer
  /** The whole answer that a stream's events add up to. */
  added(stream: string): JsonObject
  /** The same conversation, with an answer as it came and a result for each of its calls. */
  goOn(body: JsonObject, answer: Answer): JsonObject
  /** What the stream told of a failure, or undefined. */
  failure(stream: string): JsonObject | undefined
}

/** Neighbours of one role are one turn to every model. */
export function merged(turns: readonly Turn[]): Turn[] {
  const all: Turn[] = []
  for (const { role, parts } of turns) {
    const last = all.at(-1)
    if (last?.role === role) all[all.length - 1] = { role, parts: [...last.parts, ...parts] }
    else if (parts.length > 0) all.push({ role, parts })
  }
  return all
}

/** Without what is undefined. */
export const told = <T extends object>(fields: T): T =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T

/** What a test expects to find; anything else fails it by name. */
export function must<T>(value: T | undefined | null, what: string): T {
  if (value === undefined || value === null) throw new Error(`${what} is missing`)
  return value
}

export const objectsIn = (value: unknown): JsonObject[] => {
  if (!Array.isArray(value)) throw new Error(`no list, but ${JSON.stringify(value)}`)
  return value as JsonObject[]
}

/** Nothing that the reader of a format has not heard of; names are parted by spaces. */
export function knows(body: JsonObject, ...names: readonly string[]): void {
  const fields = names.join(" ").split(" ")
  const unknown = Object.keys(body).filter((field) => !fields.includes(field))
  if (unknown.length > 0) throw new Error(`the backend was sent ${unknown.join(", ")}`)
}

export interface Sent {
  readonly event: string | undefined
  readonly data: string
}

/** The events of a stream: an optional `event:` line, one `data:` line, an empty line; comments are passed over. */
export const eventsOf = (stream: string): Sent[] => {
  if (!stream.endsWith("\n\n")) throw new Error("the stream ends within an event")
  return stream
    .split("\n\n")
    .map((block) => block.split("\n").filter((line) => line !== "" && !line.startsWith(":")))
    .filter((lines) => lines.length > 0)
    .map((lines) => {
      const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2)
      return { event: field("event"), data: must(field("data"), "an event's data") }
    })
}

/** Holds a value against a shape; a copy of it, for the runner writes what it matched into what it was given. */
export function shaped(value: JsonObject, shape: object): void {
  expect(structuredClone(value)).toMatchObject(shape)
}
