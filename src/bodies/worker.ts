/**
 * A desk in a worker of its own. It answers one question after the other; a bug that one of them meets is told as such, for
 * the other bodies here are not to suffer from it.
 */
import { answer, Desk, type Question } from "./desk.ts"

declare const self: Worker

const desk = new Desk()

function answered(question: Question): ReturnType<typeof answer> | { readonly crashed: string } {
  try {
    return answer(desk, question)
  } catch (error) {
    return { crashed: error instanceof Error ? (error.stack ?? error.message) : String(error) }
  }
}

self.addEventListener(
  "message",
  ({ data }: MessageEvent<Question | { readonly type: "free"; readonly id: number }>) => {
    if (data.type === "free") desk.free(data.id)
    else self.postMessage(answered(data), [])
  },
)
