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
    shows_balance: true,
    replays_retries: true,
    expires_at: null,
    models: null,
    endpoints: null,
    networks: null,
    origins: null,
    max_rate_micro: null,
  })
  expect("name" in settings && creationBody(settings)).toEqual({
    name: "Produksi",
    fallback: "never_dearer",
    shows_balance: true,
    replays_retries: true,
  })
})

test("limits are read exactly, in the language that they were written in", () => {
  const limits: Partial<KeyDraft> = {
    spendingLimit: "Rp 1.500,25",
    period: "daily",
    requestsPerMinute: "60",
    tokensPerMinute: "1.000.000",
    fallback: "any",
    showsBalance: false,
    replaysRetries: false,
    expiresAt: "2030-01-31T16:00:00.500Z",
    models: ["plain"],
    endpoints: ["messages"],
    networks: " 203.0.113.0/24\n\n2001:db8::1, 10.0.0.1 ",
    origins: " https://a.example\nhttp://localhost:5173 ",
    maxRate: "75.000",
  }
  expect(readDraft(draft(limits), "id")).toEqual({
    name: "Produksi",
    spending_limit_micro: 1_500_250_000,
    spending_period: "daily",
    requests_per_minute: 60,
    tokens_per_minute: 1_000_000,
    fallback: "any",
    shows_balance: false,
    replays_retries: false,
    expires_at: "2030-01-31T16:00:00.500Z",
    models: ["plain"],
    endpoints: ["messages"],
    networks: ["203.0.113.0/24", "2001:db8::1", "10.0.0.1"],
    origins: ["https://a.example", "http://localhost:5173"],
    max_rate_micro: 75_000,
  })
})

test("a name is sent without what copying took along: white space, and marks of the text's direction", () => {
  expect(readDraft(draft({ name: " \u2068\u202dProduksi\u202c\u2069 \u200fد\n" }), "id")).toMatchObject({
    name: "Produksi \u200fد",
  })
})

test.each([
  [{ name: "\u202e" }, ["name"]],
  [{ name: "  " }, ["name"]],
  [{ name: "x".repeat(101) }, ["name"]],
  [{ spendingLimit: "banyak" }, ["amount"]],
  [{ spendingLimit: "9.000.000.001" }, ["too-much"]],
  [{ requestsPerMinute: "0" }, ["requests"]],
  [{ tokensPerMinute: "2.147.483.648", requestsPerMinute: "-1" }, ["requests", "tokens"]],
  [{ models: [] }, ["models"]],
  [{ models: Array.from({ length: 65 }, (_, index) => `m${index}`) }, ["models"]],
  [{ endpoints: [] }, ["endpoints"]],
  [{ networks: "10.0.0.1\n".repeat(33) }, ["networks"]],
  [{ origins: "https://a.example\n".repeat(17) }, ["origins"]],
  [{ maxRate: "murah" }, ["rate"]],
])("%j is wrong in %j", (change, fields) => {
  expect(readDraft(draft(change), "id")).toEqual(new Set<WrongField>(fields as WrongField[]))
})

test("a new key's ceiling goes with it where one is set, and how long it stops only where it stops", () => {
  const settings = readDraft(draft({}), "en")
  if (!("name" in settings)) throw new Error("it is whole")
  const body = (breaker: Parameters<typeof creationBody>[1]) => {
    const made = creationBody(settings, breaker)
    return Object.fromEntries(Object.entries(made).filter(([name]) => name.startsWith("breaker_")))
  }
  expect(body({ ceiling_micro: null, action: "stop", pause_minutes: 15 })).toEqual({})
  expect(body({ ceiling_micro: 5, action: "stop", pause_minutes: 15 })).toEqual({
    breaker_ceiling_micro: 5,
    breaker_action: "stop",
    breaker_pause_minutes: 15,
  })
  expect(body({ ceiling_micro: 5, action: "warn", pause_minutes: 15 })).toEqual({
    breaker_ceiling_micro: 5,
    breaker_action: "warn",
  })
})
