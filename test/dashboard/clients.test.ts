/** The set-ups of clients: the quick start page and docs/clients.md are of one list. */
import { expect, test } from "bun:test"
import { filledIn, firstModel } from "../../src/dashboard/pages/quick-start/client.ts"
import { clients } from "../../src/dashboard/pages/quick-start/clients.ts"
import { withClients } from "./clients-document.ts"
import catalogue from "../../seeds/catalogue.json"

const page = await Bun.file("docs/clients.md").text()

test("docs/clients.md has the set-ups that `bun test/dashboard/clients-document.ts` writes", () => {
  expect(page).toBe(withClients(page))
})

test("a document that has lost its marks is not written over", () => {
  expect(() => withClients("# Clients\n")).toThrow("marks")
})

test("each client's example is a model of the stock catalogue that is served in its first format", () => {
  const wrong = clients.filter(({ example, formats: [format] }) => {
    const model = catalogue.models.find(({ model: id }) => id === example)
    return format === undefined || !model?.endpoints.includes(format)
  })
  expect(wrong.map(({ id }) => id)).toEqual([])
})

test("each has a name of its own in the address, and as many notes in Indonesian as in English", () => {
  expect(new Set(clients.map(({ id }) => id)).size).toBe(clients.length)
  for (const { id, notes } of clients) expect([id, notes?.id.length]).toEqual([id, notes?.en.length])
})

test("clients of messages get the address without /v1, all others with it; nothing is left open but the key", () => {
  const model = { model: "m", context_window: 1000, max_output_tokens: 100 }
  for (const { id, formats, snippets, notes } of clients) {
    const code = snippets.map((snippet) => filledIn(snippet.code, { base: "http://here", model })).join("\n")
    const [first] = /http:\/\/here(\/v1)?/.exec(code) ?? []
    const isBare = formats[0] === "messages" || id === "goose"
    expect([id, first ?? "http://here/v1"]).toEqual([id, isBare ? "http://here" : "http://here/v1"])
    const whole = [code, ...(notes?.en ?? []), ...(notes?.id ?? [])].map((text) => filledIn(text, { base: "b", model }))
    expect([id, whole.join(" ").match(/<(?!API_KEY>)[A-Z_]+>/)]).toEqual([id, null])
  }
})

test("JSON to be copied is JSON", () => {
  const model = { model: "m", context_window: null, max_output_tokens: 100 }
  for (const { snippets } of clients) {
    for (const { language, code } of snippets) {
      if (language === "json") expect(() => JSON.parse(filledIn(code, { base: "b", key: "k", model }))).not.toThrow()
    }
  }
})

test("the model to begin with is the client's example, else one of its family, else one of a middle price", () => {
  const models = [
    ["claude-cheap", 1],
    ["claude-middle", 5],
    ["claude-dear", 9],
    ["gpt-one", 7],
  ].map(([model, output]) => ({ model, output_micro: output, supports_tools: true })) as unknown as Parameters<
    typeof firstModel
  >[0]
  expect(firstModel(models, "gpt-one")?.model).toBe("gpt-one")
  expect(firstModel(models, "claude-gone")?.model).toBe("claude-middle")
  expect(firstModel(models)?.model).toBe("gpt-one")
  expect(firstModel([], "gpt-one")).toBeUndefined()
})
