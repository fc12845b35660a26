/** The books hold together: every check of contradictions.ts, as one expectation of a test. */
import { expect } from "bun:test"
import type { Sql } from "../../src/store/database.ts"
import { contradictionsIn, type Expected } from "./contradictions.ts"

export async function reconcile(sql: Sql, expected: Expected = {}): Promise<void> {
  expect(await contradictionsIn(sql, expected)).toEqual({})
}
