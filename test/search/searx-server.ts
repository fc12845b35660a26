/** A search server for tests, on a port: what it finds, how long it takes and how it fails are told to it. */
export interface Page {
  readonly url: string
  readonly title?: string
  readonly content?: string
  readonly publishedDate?: string | null
}

export interface SearxServer extends AsyncDisposable {
  readonly url: string
  /** The queries that it was asked, with everything that came with them. */
  readonly asked: URLSearchParams[]
  /** What it answers from now on. */
  answer: () => Response | Promise<Response>
}

export const pages = (...found: readonly unknown[]): Response =>
  Response.json({ query: "q", number_of_results: found.length, results: found, suggestions: [] })

export const kyoto: Page = {
  url: "https://example.com/kyoto",
  title: "Kyoto in autumn",
  content: "The maples turn red in the middle of November.",
  publishedDate: "2026-10-02T00:00:00",
}

export function startSearx(): SearxServer {
  const asked: URLSearchParams[] = []
  const state: Pick<SearxServer, "answer"> = { answer: () => pages(kyoto) }
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    fetch(request) {
      const { pathname, searchParams } = new URL(request.url)
      if (pathname !== "/searx/search" || searchParams.get("format") !== "json")
        return new Response("", { status: 404 })
      asked.push(searchParams)
      return state.answer()
    },
  })
  return Object.assign(state, {
    url: `http://127.0.0.1:${server.port}/searx/`,
    asked,
    [Symbol.asyncDispose]: () => server.stop(true),
  })
}
