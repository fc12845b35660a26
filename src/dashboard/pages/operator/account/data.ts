/** What the page of one account asks. */
import { queryOptions } from "@tanstack/react-query"
import { api } from "../../../api/client.ts"
import { told } from "../../../api/failure.ts"
import { at } from "../list.ts"

export const accountQuery = (id: string) =>
  queryOptions({
    queryKey: ["operator", "account", id],
    queryFn: () => told(api.operator.accounts({ id: encodeURIComponent(id) }).get()),
  })
export type AccountDetail = Awaited<ReturnType<NonNullable<ReturnType<typeof accountQuery>["queryFn"]>>>

export const transfersPage = (id: string, cursor: string | undefined) =>
  told(api.operator.accounts({ id: encodeURIComponent(id) }).transfers.get({ query: at(cursor) }))
export type Transfer = Awaited<ReturnType<typeof transfersPage>>["data"][number]
