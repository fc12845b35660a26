import { expect, test } from "bun:test"
import {
  emptyDraft,
  readDraft,
  creationBody,
  type KeyDraft,
  type WrongField,
} from "../../src/dashboard/pages/keys/draft.ts"

const draft = (change: Partial<KeyDraft>): KeyDraft => ({ ...emptyDraft, name: "Produksi", ...change })

test("empty fields are no limits: of a new key they are left out, of one that is there they are removed", () => {
  const settings = readDraft(draft({}), "id")
  expect(settings).toEqual({
    name: "Produksi",
    spending_limit_micro: null,
    spending_period: null,
    requests_per_minute: null,
    tokens_per_minute: null,
    fallback: "never_dearer",
  })
  expect("name" in settings && creationBody(settings)).toEqual({ name: "Produksi", fallback: "never_dearer" })
})

test("limits are read exactly, in the language that they were written in", () => {
  const limits = {
    spendingLimit: "Rp 1.500,25",
    period: "daily",
    requestsPerMinute: "60",
    tokensPerMinute: "1.000.000",
    fallback: "any",
  }
  expect(readDraft(draft(limits as KeyDraft), "id")).toEqual({
    name: "Produksi",
    spending_limit_micro: 1_500_250_000,
    spending_period: "daily",
    requests_per_minute: 60,
    tokens_per_minute: 1_000_000,
    fallback: "any",
  })
})

test.each([
  [{ name: "  " }, ["name"]],
  [{ name: "x".repeat(101) }, ["name"]],
  [{ spendingLimit: "banyak" }, ["amount"]],
  [{ spendingLimit: "9.000.000.001" }, ["too-much"]],
  [{ requestsPerMinute: "0" }, ["requests"]],
  [{ tokensPerMinute: "2.147.483.648", requestsPerMinute: "-1" }, ["requests", "tokens"]],
])("%j is wrong in %j", (change, fields) => {
  expect(readDraft(draft(change), "id")).toEqual(new Set<WrongField>(fields as WrongField[]))
})
