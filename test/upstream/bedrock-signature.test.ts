import { describe, expect, test } from "bun:test"
import { type SignedCall, signedHeaders } from "../../src/upstream/bedrock.ts"

const key = {
  accessKeyId: "AKIDEXAMPLE",
  secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
  sessionToken: undefined,
  region: "us-east-1",
}
const now = new Date("2015-08-30T12:36:00Z")
const signature = async (call: Partial<SignedCall>) => {
  const headers = await signedHeaders({
    url: "https://example.amazonaws.com/",
    headers: new Headers(),
    body: "",
    key,
    now,
    service: "service",
    ...call,
  })
  return headers.get("Authorization")
}

describe("a signed call", () => {
  // The vendor's own examples: AWS Signature Version 4 test suite.
  test("has the signature of the vendor's example post-vanilla", async () => {
    expect(await signature({})).toBe(
      "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    )
  })

  test("has the signature of the vendor's example post-header-key-sort", async () => {
    expect(await signature({ headers: new Headers({ "My-Header1": "value1" }) })).toEndWith(
      "SignedHeaders=host;my-header1;x-amz-date, Signature=c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
    )
  })

  test("of temporary credentials carries their token, signed", async () => {
    const headers = await signedHeaders({
      url: "https://bedrock-runtime.us-east-1.amazonaws.com/model/a%3A0/converse",
      headers: new Headers(),
      body: "{}",
      key: { ...key, sessionToken: "a token" },
      now,
    })
    expect(headers.get("X-Amz-Security-Token")).toBe("a token")
    expect(headers.get("Authorization")).toContain(
      "/us-east-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date;x-amz-security-token",
    )
  })

  test("has another signature for another body, path or secret", async () => {
    const signatures = await Promise.all([
      signature({}),
      signature({ body: "{}" }),
      signature({ url: "https://example.amazonaws.com/model" }),
      signature({ key: { ...key, secretAccessKey: "another" } }),
    ])
    expect(new Set(signatures).size).toBe(4)
  })
})
