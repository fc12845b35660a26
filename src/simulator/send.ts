/** Answers that are one body of a known length. */
import type { Client } from "./client.ts"
import type { SimulatedFormat, VendorError } from "./format.ts"

export const sendBody = async (
  client: Client,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: string,
  type = "application/json",
): Promise<void> => {
  client.head(status, { ...headers, "content-type": type, "content-length": Buffer.byteLength(body) })
  await client.end(body)
}

/** The format's own error, under the status that its vendor sends with it. */
export const sendError = (client: Client, format: SimulatedFormat, error: VendorError, serial: string): Promise<void> =>
  sendBody(client, error.status, format.headers(serial), JSON.stringify(format.errorBody(error, serial)))
