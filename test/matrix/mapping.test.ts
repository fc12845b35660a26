/**
 * Where each trap of mapping one format to another, and each habit of a client that a stream can break, has its test.
 * The left column says it in short, the others say where: a file, and words that stand in it. A test that is renamed or
 * taken away is missed here.
 */
import { expect, test } from "bun:test"
import { join } from "node:path"

const chat = "wire/chat/codec"
const messages = "wire/messages/codec"
const responses = "wire/responses/codec"
const matrix = "matrix/rows"

const index: readonly (readonly [trap: string, file: string, words: string])[] = [
  // Streams.
  ["heartbeats are comment lines", "contract/streams.test", "in mid-stream heartbeats stand between whole events"],
  ["a heartbeat ends in one line end", "contract/streams.test", `not.toContain(": heartbeat\\n\\n")`],
  ["SDKs read on over heartbeats", "clients/translated-silence.test", "heartbeats in its stream"],
  ["a chunk without choices only where usage was asked for", "contract/streams.test", `covers("6.usage-chunk")`],
  ["white space before a body", "clients/translated-silence.test", "spaces before its body"],
  ["an error in a chat stream, then [DONE]", "wire/stream-failure.test", "in a chat stream"],
  ["an error in a messages stream", "wire/stream-failure.test", "in a messages stream"],
  ["response.created before response.failed", "wire/stream-failure.test", "that had not begun begins first"],
  [
    "type and code of a failed response that is not streamed",
    "wire/stream-failure.test",
    "is the same object, under 200",
  ],
  ["no plain end", "matrix/pairs.test", "a plain end after"],
  ["codes that agents stop or try again at", "wire/stream-failure.test", "context_length_exceeded"],
  ["event: lines on messages", "matrix/messages", `"an event: line"`],
  ["usage in message_start and in message_delta", `${messages}-events-encode.test`, "waits for the usage"],
  ["no zeros over true counts", `${messages}-events-encode.test`, "so that the estimate stands"],
  ["zeros of a backend", "wire/readers.test", "repeats them as zero or not at all"],
  ["our estimate in message_start", `${messages}-sdk.test`, "our estimate stands"],
  ["no delta after its block's stop", `${messages}-properties.test`, "each begun and ended once, whatever events come"],
  ["every event of a responses stream, numbered", `${responses}-event-encode.test`, "every event of a text, in order"],
  ["usage from any terminal event", "wire/streams.test", `"responses/incomplete"`],
  ["usage of a failed response", "wire/streams.test", `["responses/failed", "ppF", tokens(`],

  // A chat client, a messages backend: the request.
  ["leading system and developer texts are system blocks", matrix, "developer role"],
  ["neighbours of one role are merged", `${messages}-encode.test`, "neighbours of one role become one"],
  ["empty text is left out", `${messages}-encode.test`, "text that says nothing is left out"],
  ["a run of tool messages is one user message", `${chat}-prompt-decode.test`, "a run of results as one turn"],
  ["results come first", `${messages}-encode.test`, "the results of tools come first in the user's turn"],
  ["no arguments are an empty object", `${chat}-prompt-decode.test`, "no arguments are an empty object"],
  ["no parameters are an empty object schema", `${chat}-prompt-decode.test`, "takes an empty object"],
  ["tool_choice in all its words", matrix, "tool choice named"],
  [
    "a forced choice while thinking is a free one",
    `${messages}-encode.test`,
    "is a free choice while the model thinks",
  ],
  ["calls without tools", matrix, "calls of tools that are not offered any more"],
  ["parallel_tool_calls", matrix, "one call at most"],
  ["the newer limit before the older", "wire/chat-request.test", "the newer limit goes before the older"],
  ["stop", matrix, "stop sequence"],
  ["the temperature is clamped", `${messages}-encode.test`, "a temperature of %d is %d"],
  ["an effort becomes a budget, or stays one", `${messages}-reasoning.test`, "asked for %j, is told %j"],
  ["a budget's least and most", `${messages}-reasoning.test`, "beneath a limit of %d lowered to %d"],
  ["images as data and by address", matrix, "image, address"],
  ["several answers are refused", matrix, "several answers"],
  ["audio is refused", "wire/chat-request.test", "audio in a message"],
  ["what is dropped in silence", `${chat}-prompt-decode.test`, "what has no place in the neutral language is left out"],

  // A messages backend's answer, for a chat client.
  ["each stop reason", `${messages}-events-decode.test`, `["model_context_window_exceeded", "length"]`],
  ["each finish reason", `${chat}-answers.test`, "is told as %s"],
  ["an index counts tools, not blocks", `${chat}-answers.test`, "counts tools, not parts"],
  ["thinking as reasoning_content", `${chat}-answers.test`, "tells thinking, and no seal"],
  ["prompt_tokens includes what a cache had a part in", matrix, "usage with a cache"],
  ["reasoning tokens", `${messages}-events-decode.test`, "reasoning is among them where it is told"],

  // A messages client, a chat backend: the request.
  ["system text in mid-conversation", `${chat}-prompt-encode.test`, "are one system message at the front"],
  ["the billing header is for its vendor alone", `${chat}-prompt-encode.test`, "a coding agent's billing header"],
  ["results before other user content", `${chat}-prompt-encode.test`, "before what the user says"],
  ["images in results follow", `${chat}-prompt-encode.test`, "images in results follow after all results"],
  ["a failed tool is marked", `${chat}-prompt-encode.test`, "a result that is an error says so"],
  ["cache marks are stripped", `${chat}-prompt-encode.test`, "cache marks are left out"],
  ["defer_loading is stripped", `${messages}-decode.test`, "what only steers the vendor's backend falls away"],
  ["context_management is stripped", `${messages}-decode.test`, "context_management: { edits: [] }"],
  ["long names, and the way back", "wire/tool-names.test", "with a way back, whatever it was"],
  ["usage is always asked for", `${chat}-prompt-encode.test`, "a stream is always asked for its usage"],

  // A chat backend's stream, for a messages client.
  ["blocks one after the other", `${messages}-events-encode.test`, "a part ends another one's kind"],
  ["content and finish in one chunk", `${chat}-events.test`, "content and finish in one chunk"],
  [
    "parallel calls are put in order",
    `${messages}-events-encode.test`,
    "calls whose pieces interleave are put in order",
  ],
  ["any call ends the answer as tool_use", `${chat}-events.test`, "stop after a tool call"],
  ["no signature is invented", `${messages}-events-encode.test`, "is not passed off as a signature"],
  ["input_tokens is what no cache had a part in", "wire/tokens.test", "chat counts the cache within the prompt"],

  // Responses and chat.
  [
    "instructions and developer items are system",
    `${responses}-decode-prompt.test`,
    "instructions come before leading system",
  ],
  ["function calls and their outputs", matrix, "tool results of parallel calls, then text"],
  ["strict is said", `${responses}-encode-prompt.test`, "a function says whether it is strict"],
  ["custom tools, there and back", matrix, "custom tool"],
  ["namespaces, flat and back", `${responses}-decode-prompt.test`, "a namespace's tools, and their earlier calls"],
  [
    "a namespace's own name in the answer",
    `${responses}-event-encode.test`,
    "a namespace's tool by the client's own name",
  ],
  [
    "hosted tools that nobody has are skipped",
    `${responses}-decode-prompt.test`,
    "tools without a counterpart are left out",
  ],
  ["a web search that agents always offer", matrix, "web search"],
  ["length is incomplete", matrix, "max_output_tokens"],

  // Messages and responses.
  ["a signature travels in an envelope of ours", `${responses}-event-encode.test`, "thinking with its signature"],
  ["and comes out of it", `${responses}-decode-prompt.test`, "a messages signature comes out of our envelope"],
  ["thinking goes back to who sealed it, and nobody else", matrix, "thinking and a tool call, sent back"],
  [
    "a failed response is an error, and no end_turn",
    "wire/backend-stream.test",
    "ends in a failure, and nothing comes after it",
  ],

  // The short ways.
  [
    "system and thinking of a native messages call are not touched",
    "wire/messages-request.test",
    "x-anthropic-billing-header",
  ],
  ["Bedrock's betas and fields", "wire/bedrock/invoke.test", "holds the betas that Bedrock knows"],
  ["Bedrock's counts after its stop", "contract/bedrock.test", "ends without its counts"],
]

test.each(index)("%s: %s", async (_, file, words) => {
  expect(await Bun.file(join(import.meta.dir, "..", `${file}.ts`)).text()).toContain(words)
})
