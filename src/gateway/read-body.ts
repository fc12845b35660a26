/** Reads a request's body within the size limit, without trusting what it says of its length (decisions §4.5). */
import { Failure } from "../failure/failure.ts"

export async function readBody(request: Request, maxBytes: number): Promise<Uint8Array | Failure> {
  const tooLarge = new Failure("request.too_large", { message: `The request body is larger than ${maxBytes} bytes.` })
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) return tooLarge
  if (request.body === null) return new Uint8Array()
  const pieces: Uint8Array[] = []
  let size = 0
  const reader = request.body.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : Buffer.concat(pieces, size)
      size += value.length
      if (size > maxBytes) {
        await reader.cancel()
        return tooLarge
      }
      pieces.push(value)
    }
  } catch {
    return new Failure("request.invalid", { message: "The request body broke off." })
  }
}
