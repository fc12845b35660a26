/** Hears each line of a stream, the last one also without its end. */
export async function eachLine(stream: ReadableStream<Uint8Array>, hear: (line: string) => void): Promise<void> {
  const decoder = new TextDecoder()
  let text = ""
  for await (const bytes of stream) {
    const lines = (text + decoder.decode(bytes, { stream: true })).split("\n")
    text = lines.pop() ?? ""
    for (const line of lines) hear(line)
  }
  if (text !== "") hear(text)
}
