import { expect, test } from "bun:test"
import type { Provider } from "../../src/catalogue/model.ts"
import { configuredBackends } from "../../src/upstream/providers.ts"

const provider: Provider = {
  id: "first",
  label: "First",
  baseUrl: "https://first.example",
  apiKeyEnv: "ID",
  headers: {},
}
const signed: Provider = {
  ...provider,
  signing: { region: "us-east-1", secretKeyEnv: "SECRET", sessionTokenEnv: "TOKEN" },
}
const configured = (from: Provider, variables: Readonly<Record<string, string>>) =>
  configuredBackends([from], (name) => variables[name]).get("first")

test("a provider is configured once its key is set", () => {
  expect(configured(provider, {})).toBeUndefined()
  expect(configured(provider, { ID: "key" })).toEqual({ provider, apiKey: "key", signing: undefined })
})

test("a provider whose calls are signed needs its secret too, and its session token only where there is one", () => {
  expect(configured(signed, { ID: "id" })).toBeUndefined()
  const signing = { accessKeyId: "id", secretAccessKey: "secret", region: "us-east-1" }
  expect(configured(signed, { ID: "id", SECRET: "secret" })?.signing).toEqual({ ...signing, sessionToken: undefined })
  expect(configured(signed, { ID: "id", SECRET: "secret", TOKEN: "token" })?.signing).toEqual({
    ...signing,
    sessionToken: "token",
  })
})
