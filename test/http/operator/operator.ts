/** Operators in tests: a person of a gateway's with the role, and calls of the operator's API. */
import type { Person, TestGateway } from "../../gateway/harness.ts"

export async function makeOperator(gateway: TestGateway): Promise<Person> {
  const person = await gateway.person()
  await gateway.sql`update accounts set role = 'operator' where id = ${person.accountId}`
  return person
}

export interface Answer {
  readonly status: number
  // Of any shape: what it is, the test says.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly json: any
}

/** A call as somebody: `GET` without a body, `POST` with one, unless told otherwise. */
export const caller =
  (gateway: TestGateway, person: Person) =>
  async (path: string, body?: object, method = body === undefined ? "GET" : "POST"): Promise<Answer> => {
    const response = await gateway.dashboard(person, path, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, json: text === "" ? undefined : JSON.parse(text) }
  }
