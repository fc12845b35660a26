/**
 * The baseline: the least that any proxy on Bun does. It passes bytes through, both ways, and knows nothing of them.
 * `UPSTREAM` names the backend; the port is printed.
 */
const upstream = process.env["UPSTREAM"] ?? ""

const server = Bun.serve({
  port: 0,
  idleTimeout: 0,
  async fetch(request) {
    const { pathname } = new URL(request.url)
    const response = await fetch(upstream + pathname, {
      method: request.method,
      headers: { "Content-Type": "application/json" },
      body: await request.arrayBuffer(),
      signal: request.signal,
    })
    return new Response(response.body, { status: response.status, headers: { "Content-Type": "application/json" } })
  },
})
console.log(`listening ${server.url.origin}`)
