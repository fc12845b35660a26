/** The client's types, which come from the server's routes: held by the type checker, and named here. */
import { expectTypeOf, test } from "bun:test"
import type { api } from "../../src/dashboard/api/client.ts"
import type { Account } from "../../src/dashboard/api/queries.ts"
import type { ErrorBody } from "../../src/http/edge.ts"

type Answered<Call extends (...parameters: never[]) => unknown> = Awaited<ReturnType<Call>>
type NewKey = Parameters<typeof api.keys.post>[0]

test("an answer is what the route returns, without the failures that leave as errors", () => {
  expectTypeOf<Account["balance_micro"]>().toEqualTypeOf<number>()
  expectTypeOf<Extract<Answered<typeof api.account.get>, { error: null }>["data"]>().toEqualTypeOf<Account>()
  expectTypeOf<"detail" extends keyof Account ? true : false>().toEqualTypeOf<false>()
})

test("an error has the error body, whatever its status", () => {
  type Refused = NonNullable<Answered<typeof api.keys.get>["error"]>
  expectTypeOf<Refused["value"]>().toEqualTypeOf<ErrorBody>()
  expectTypeOf<401 | 429 | 503>().toExtend<Refused["status"]>()
})

test("a body is what the route's reader takes", () => {
  expectTypeOf<NonNullable<NewKey["spending_period"]>>().toEqualTypeOf<"daily" | "monthly" | "total">()
  expectTypeOf<NewKey["name"]>().toEqualTypeOf<string>()
})
