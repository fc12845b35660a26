/** JSON as it arrives: nothing is trusted but that it parsed. */
export type Json = null | boolean | number | string | Json[] | JsonObject
export interface JsonObject {
  [key: string]: Json | undefined
}

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** `null` in an optional field is an absent field (decisions §12.7). */
export const present = <T>(value: T | null | undefined): value is T => value !== undefined && value !== null
