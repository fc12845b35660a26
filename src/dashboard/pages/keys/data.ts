/** What only this page asks. */
import { queryOptions } from "@tanstack/react-query"
import { api } from "../../api/client.ts"
import { told } from "../../api/failure.ts"

const LOOK_BACK_MS = 7 * 24 * 60 * 60 * 1_000

/** The models that a key called of late, the most called first. */
export const callsOfKeyQuery = (keyId: string) =>
  queryOptions({
    queryKey: ["usage", "of-key", keyId],
    queryFn: async () => {
      const from = new Date(Date.now() - LOOK_BACK_MS).toISOString()
      const { data } = await told(api.usage.summary.get({ query: { group_by: "key", split_by: "model", from } }))
      return data
        .filter(({ group }) => group === keyId)
        .map(({ split, requests }) => ({ model: split ?? "", requests }))
        .sort((a, b) => b.requests - a.requests)
    },
  })
