/**
 * A body processor in a worker thread. It executes one command after the other. A bug in one command is reported as a reply, so that
 * the other bodies on this thread are not affected.
 */
import { execute, BodyProcessor, type BodyCommand } from "./body-processor.ts"

declare const self: Worker

const processor = new BodyProcessor()

function answered(command: BodyCommand): ReturnType<typeof execute> | { readonly crashed: string } {
  try {
    return execute(processor, command)
  } catch (error) {
    return { crashed: error instanceof Error ? (error.stack ?? error.message) : String(error) }
  }
}

self.addEventListener(
  "message",
  ({ data }: MessageEvent<BodyCommand | { readonly type: "free"; readonly id: number }>) => {
    if (data.type === "free") processor.free(data.id)
    else self.postMessage(answered(data), [])
  },
)
