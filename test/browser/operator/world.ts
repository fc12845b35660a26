/** A gateway with a browser and its first operator, who is made as on a machine of its own: by the command's function. */
import { openDatabase } from "../../../src/store/database.ts"
import { changeRole } from "../../../src/store/operator/role.ts"
import type { Person } from "../../gateway/harness.ts"
import { type BrowserWorld, openBrowser } from "../harness.ts"

const PAYMENT_SECRET = "a secret of the tests"
const PASSWORD = "correct horse battery"

export interface OperatorWorld extends BrowserWorld {
  readonly operator: Person
}

export async function openOperatorWorld(): Promise<OperatorWorld> {
  let databaseUrl = ""
  const world = await openBrowser({
    env: { PAYMENT_SIMULATED_SECRET: PAYMENT_SECRET },
    databaseUrl: (url) => (databaseUrl = url),
  })
  const operator = await firstOperator(world, databaseUrl)
  return { ...world, operator }
}

/** Power is gained by signing in anew. */
async function firstOperator({ gateway }: BrowserWorld, databaseUrl: string): Promise<Person> {
  const sign = async (way: "sign-up" | "sign-in") => {
    const response = await fetch(`${gateway.url}/auth/${way}`, {
      method: "POST",
      body: JSON.stringify({ email: "operator@example.com", password: PASSWORD }),
    })
    const { account, session_token: token } = (await response.json()) as {
      account: { id: string }
      session_token: string
    }
    return { accountId: account.id, token }
  }
  await sign("sign-up")
  const database = openDatabase({ url: databaseUrl, connections: 1 })
  const act = { requestId: "cmd_first", operatorId: undefined, address: undefined }
  const outcome = await changeRole(
    database,
    { email: "operator@example.com" },
    { role: "owner", act, keepsAnOwner: false },
  )
  await database.close()
  if (outcome?.kind !== "changed" || outcome.before !== "customer")
    throw new Error(`the first operator was ${JSON.stringify(outcome)}`)
  return await sign("sign-in")
}

/** Somebody with a top-up for which another amount came than was asked for. Returns the top-up's id. */
export async function payWrongly({ gateway }: BrowserWorld, person: Person): Promise<string> {
  const opened = await gateway.dashboard(person, "/top-ups", {
    method: "POST",
    body: JSON.stringify({ amount_rp: 50_000 }),
  })
  const { id } = (await opened.json()) as { id: string }
  const body = JSON.stringify({ top_up_id: id, status: "paid", amount_rp: 5_000 })
  const signature = new Bun.CryptoHasher("sha256", PAYMENT_SECRET).update(body).digest("hex")
  const headers = { "X-Signature": signature }
  const told = await fetch(`${gateway.url}/webhooks/payments/simulated`, { method: "POST", headers, body })
  if (told.status !== 400) throw new Error(`a wrong amount was taken: ${told.status}`)
  return id
}

export async function say({ gateway }: BrowserWorld, key: string, model: string): Promise<Response> {
  const body = { model, max_tokens: 50, messages: [{ role: "user", content: "Halo" }] }
  const response = await gateway.post("/v1/chat/completions", key, body)
  await response.text()
  return response
}
