/** What a desk is asked, wherever it stands. */
import { unreachable } from "../../actors/unreachable.ts"
import type { ModelRequest, Endpoint } from "../language/request.ts"
import { Failure } from "../failure/failure.ts"
import type { WrittenBody } from "../wire/exchange.ts"
import type { DecodeTerms, Desk, Met, MeetTerms, Refusal, WriteTerms } from "./desk.ts"

/** By the number of the body. */
export type Question =
  | {
      readonly type: "read"
      readonly id: number
      readonly bytes: Uint8Array<ArrayBuffer>
      readonly endpoint: Endpoint
    }
  | { readonly type: "decode"; readonly id: number; readonly terms: DecodeTerms }
  | { readonly type: "meet"; readonly id: number; readonly terms: MeetTerms }
  | { readonly type: "write"; readonly id: number; readonly terms: WriteTerms }

export type Answer =
  | { readonly type: "read"; readonly model: string }
  | { readonly type: "decode"; readonly request: ModelRequest }
  | { readonly type: "meet"; readonly met: Met }
  | { readonly type: "write"; readonly written: WrittenBody }
  | { readonly type: "refused"; readonly refusal: Refusal }

export function answer(desk: Desk, question: Question): Answer {
  const { type, id } = question
  switch (type) {
    case "read": {
      const model = desk.read(id, question.bytes, question.endpoint)
      return model instanceof Failure ? refused(model) : { type, model }
    }
    case "decode": {
      const request = desk.decode(id, question.terms)
      return request instanceof Failure ? refused(request) : { type, request }
    }
    case "meet": {
      const met = desk.meet(id, question.terms)
      return met instanceof Failure ? refused(met) : { type, met }
    }
    case "write": {
      const written = desk.write(id, question.terms)
      return written instanceof Failure ? refused(written) : { type, written }
    }
    default:
      return unreachable(type)
  }
}

const refused = ({ code, detail }: Failure): Answer => ({ type: "refused", refusal: { code, detail } })
