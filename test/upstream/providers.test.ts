import { describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Provider, soleCredential } from "../../src/catalogue/model.ts"
import {
  configuredBackends,
  membersOf,
  unsetCredentials,
  unsetText,
  wrongSecrets,
} from "../../src/upstream/providers.ts"

const provider: Provider = {
  id: "first",
  label: "First",
  baseUrl: "https://first.example",
  credentials: [soleCredential("ID")],
  headers: {},
}
const signed: Provider = {
  ...provider,
  credentials: [{ ...soleCredential("ID"), signing: { secretKey: { env: "SECRET" }, sessionToken: { env: "TOKEN" } } }],
  signing: { region: "us-east-1" },
}
const configured = (from: Provider, variables: Readonly<Record<string, string>>) =>
  configuredBackends([from], (name) => variables[name]).get("first")?.[0]

test("a provider is configured once its key is set", () => {
  expect(configured(provider, {})).toBeUndefined()
  expect(configured(provider, { ID: "key" })).toEqual({ provider, credential: provider.credentials[0], apiKey: "key" })
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

test("white space around a secret is no part of it, and nothing else is no secret", () => {
  const signing = { accessKeyId: "id", secretAccessKey: "secret", sessionToken: "to ken", region: "us-east-1" }
  const backend = configured(signed, { ID: " id\n", SECRET: "\tsecret\r\n", TOKEN: "to ken \n\n" })
  expect(backend).toMatchObject({ apiKey: "id", signing })
  expect(configured(provider, { ID: " \n" })).toBeUndefined()
})

/** The variables of which it is said that no header takes what they hold. */
const wrong = (variables: Readonly<Record<string, string>>) =>
  wrongSecrets([signed], (name) => variables[name]).map((sentence) => sentence.split(" ")[0])

test("each secret that no header takes is named, and none that one takes", () => {
  expect(wrong({ ID: "i–d", SECRET: "sec\nret", TOKEN: "to\u007fken" })).toEqual(["ID", "SECRET", "TOKEN"])
  expect(wrong({ ID: "\n i\td \n", SECRET: "\r\nsécret\t", TOKEN: "~ ÿ" })).toEqual([])
  expect(wrong({})).toEqual([])
})

const key = (name: string, weight = 1) => ({ ...soleCredential(name.toUpperCase()), name, weight })

describe("several credentials", () => {
  const several: Provider = { ...provider, credentials: [key("a"), key("b", 3)] }

  test("one without a value is left out and told, unless none has one", () => {
    const told = (variables: Readonly<Record<string, string>>) =>
      unsetCredentials([several], (name) => variables[name]).map(unsetText)
    const found = configuredBackends([several], (name) => (name === "B" ? "key" : undefined)).get("first")
    expect(found?.map(({ credential, apiKey }) => [credential.name, apiKey])).toEqual([["b", "key"]])
    expect(told({ B: "key" })).toEqual(["provider first: the key a has no value: A is unset"])
    expect(told({ A: "key", B: "key" })).toEqual([])
    expect(told({})).toEqual([])
    const ofTwo: Provider = { ...signed, credentials: [...signed.credentials, key("b")] }
    expect(unsetCredentials([ofTwo], (name) => (name === "SECRET" ? undefined : "key")).map(unsetText)).toEqual([
      `provider first: the key ${signed.credentials[0].name} has no value: SECRET is unset`,
    ])
  })

  test("a file's value is its text without white space around it; what is no header's value is none", () => {
    const folder = mkdtempSync(join(tmpdir(), "loket-keys-"))
    try {
      const valueOf = (text: string | undefined) => {
        const file = join(folder, "key")
        rmSync(file, { force: true })
        if (text !== undefined) writeFileSync(file, text)
        const credentials: Provider["credentials"] = [{ ...key("a"), key: { file } }]
        return configuredBackends([{ ...provider, credentials }], () => undefined).get("first")?.[0]?.apiKey
      }
      expect(valueOf("secret")).toBe("secret")
      expect(valueOf("secret\n")).toBe("secret")
      expect(valueOf("secret\r\n")).toBe("secret")
      expect(valueOf(" secret\t\n\n")).toBe("secret")
      expect(valueOf("x".repeat(65_536))).toHaveLength(65_536)
      for (const none of [undefined, "", "\n", "two\nlines", "two\ttabs", "sk–key", "x".repeat(65_537)])
        expect(valueOf(none)).toBeUndefined()
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  test("a pool has a member for each backend and credential, under a name of its own and with both weights", () => {
    const upstream = { provider: "first", format: "chat", model: "m", priority: 0, weight: 2 } as const
    const upstreams = [
      upstream,
      { ...upstream, format: "messages" },
      { ...upstream, model: "n" },
      { ...upstream, provider: "away" },
    ] as const
    const members = membersOf(
      { upstreams },
      configuredBackends([several], () => "key"),
    )
    expect(members.map(({ id, weight }) => [id, weight])).toEqual([
      ["first/a/m/chat", 2],
      ["first/b/m/chat", 6],
      ["first/a/m/messages", 2],
      ["first/b/m/messages", 6],
      ["first/a/n", 2],
      ["first/b/n", 6],
    ])
  })
})
