/** Operators in tests: a person of a gateway's with the role, and calls of the operator's API. */
import { expect } from "bun:test"
import type { OpenapiDocument } from "../../../src/http/openapi.ts"
import type { OperatorRole } from "../../../src/store/operator/role.ts"
import { problemsOf } from "../documented.ts"
import type { Person, TestGateway } from "../../gateway/harness.ts"

export async function makeOperator(gateway: TestGateway, role: OperatorRole = "owner"): Promise<Person> {
  const person = await gateway.person()
  await gateway.sql`update accounts set role = 'operator', operator_role = ${role} where id = ${person.accountId}`
  return person
}

export interface Answer {
  readonly status: number
  // Of any shape: what it is, the test says.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly json: any
}

const documents = new WeakMap<TestGateway, Promise<OpenapiDocument>>()

async function documentOf(gateway: TestGateway): Promise<OpenapiDocument> {
  const read = async () => (await (await fetch(`${gateway.url}/openapi.json`)).json()) as OpenapiDocument
  const document = documents.get(gateway) ?? read()
  documents.set(gateway, document)
  return await document
}

/** A call as somebody, whose answer is held against the document: `GET` without a body, `POST` with one, unless told otherwise. */
export const caller =
  (gateway: TestGateway, person: Person) =>
  async (path: string, body?: object, method = body === undefined ? "GET" : "POST"): Promise<Answer> => {
    const response = await gateway.dashboard(person, path, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const json: unknown = text === "" ? undefined : JSON.parse(text)
    const asked = { method, path: new URL(response.url).pathname, status: response.status, json }
    expect(problemsOf(await documentOf(gateway), asked)).toEqual([])
    return { status: response.status, json }
  }
