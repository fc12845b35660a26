/** A row of the table: one attack, what it should come to, and how it is played. */
import type { Arena } from "./arena.ts"

export interface Finding {
  readonly tried: string
  readonly seen: string
  /** What should be seen is seen. */
  readonly held: boolean
}

/** What the gateway of a row is like, where the usual one will not do. */
export type Place = "usual" | "hasty"

export interface Row {
  readonly id: string
  readonly wanted: string
  /** `hasty` has short timeouts. */
  readonly place?: Place
  /** Mostly waits, so it is played beside the others. */
  readonly beside?: true
  /** Only with `--full`. */
  readonly long?: true
  readonly play: (arena: Arena, size: Size) => Promise<readonly Finding[]>
}

export interface Size {
  /** The sizes of the first attacks; otherwise ones that show the same in seconds. */
  readonly full: boolean
}

/** Could not be tried here, such as for want of a program; no hole and no proof. */
export class NotPlayed extends Error {}
