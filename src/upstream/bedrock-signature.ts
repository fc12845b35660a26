/**
 * Signs a call the way Amazon's services ask for it (Signature Version 4). A model's id may hold `:` and `/`; the path
 * has them escaped already, and is escaped once more for the signature, as for every service but one.
 */
import { AwsV4Signer } from "aws4fetch"

/** The operator's credentials for a provider whose calls are signed. */
export interface SigningKey {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  /** Of temporary credentials. */
  readonly sessionToken: string | undefined
  readonly region: string
}

export interface SignedCall {
  readonly url: string
  readonly headers: Headers
  readonly body: string
  readonly key: SigningKey
  readonly now: Date
  readonly service?: string
}

/** Day keys by secret, day and region: four hashes less a call. Old days are few and small. */
const dayKeys = new Map<string, ArrayBuffer>()

/** The headers to send in place of the call's own. */
export async function signedHeaders({ key, now, service = "bedrock", ...call }: SignedCall): Promise<Headers> {
  const { sessionToken, ...credentials } = key
  const signer = new AwsV4Signer({
    ...call,
    ...credentials,
    ...(sessionToken !== undefined && { sessionToken }),
    method: "POST",
    service,
    cache: dayKeys,
    datetime: now.toISOString().replace(/[:-]|\.\d{3}/g, ""),
  })
  return (await signer.sign()).headers
}
