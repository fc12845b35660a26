/** Many of something: D3 idle connections, D4 guesses, D7 sign-ups and keys, D8 a burst, D9 one account's keys. */
import { ADDRESS_HEADER, Arena, NARROW, NARROW_CAP, WIDE } from "../lib/arena.ts"
import { asking } from "../lib/attacker.ts"
import { descriptors } from "../lib/process.ts"
import { listenTo, open } from "../lib/raw.ts"
import type { Finding, Row } from "../lib/row.ts"

const HEALTH = "GET /healthz HTTP/1.1\r\nHost: loket.test\r\n\r\n"

/** Connections that asked once and stay; a call under way is silent for longer, and must be spared. */
async function idle(arena: Arena): Promise<Finding[]> {
  const attacker = await arena.attacker(10_000)
  const call = JSON.stringify(asking("chat", "gpt-oss-20b", attacker.plays({}), { max_tokens: 5 }))
  const asked = (from: string) => async () => {
    const socket = await open(arena.url)
    const stream = listenTo(socket)
    socket.write(from)
    await stream.readUntil((text) => text.includes("HTTP/1.1 200"), 10_000)
    return stream
  }
  const post = `POST /v1/chat/completions HTTP/1.1\r\nHost: loket.test\r\nAuthorization: Bearer ${attacker.key}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(call)}\r\n\r\n${call}`
  const before = descriptors(arena.gateway.pid)
  const kinds = {
    "that asked /healthz once": await Promise.all(Array.from({ length: 50 }, asked(HEALTH))),
    "that made a call": await Promise.all(Array.from({ length: 10 }, asked(post))),
    "that said nothing": await Promise.all(Array.from({ length: 20 }, async () => listenTo(await open(arena.url)))),
  }
  const silent = attacker.plays({ afterMs: 75_000 })
  const spared = attacker.call("chat", asking("chat", "gpt-oss-20b", silent, { max_tokens: 5 })).catch(() => undefined)
  await Bun.sleep(78_000)
  const findings = Object.entries(kinds).map(([kind, streams]): Finding => {
    const left = streams.filter(({ socket }) => !socket.destroyed && !socket.readableEnded).length
    return { tried: `${streams.length} connections ${kind}`, seen: `${left} open after 78 s`, held: left === 0 }
  })
  for (const streams of Object.values(kinds)) for (const { socket } of streams) socket.destroy()
  const answer = await spared
  const status = answer?.status ?? "connection lost"
  findings.push({
    tried: "a call whose backend is silent for 75 s",
    seen: `${status}; ${descriptors(arena.gateway.pid)} descriptors, ${before} before`,
    held: status === 200,
  })
  return findings
}

/** At the limit of descriptors. */
async function exhausted(root: string): Promise<Finding> {
  await using arena = await Arena.open({ root, ulimit: "-n 600" })
  const sockets = await Promise.all(
    Array.from({ length: 700 }, async () => {
      const socket = await open(arena.url).catch(() => undefined)
      socket?.on("error", () => {})
      socket?.write(HEALTH)
      return socket
    }),
  )
  await Bun.sleep(90_000)
  const healthy = await fetch(`${arena.url}/healthz`, { signal: AbortSignal.timeout(5_000) }).then(
    ({ ok }) => ok,
    () => false,
  )
  for (const socket of sockets) socket?.destroy()
  return {
    tried: "700 idle connections to a gateway of 600 descriptors",
    seen: healthy ? "/healthz answers after 90 s" : "/healthz does not answer after 90 s",
    held: healthy,
  }
}

const signIn = (arena: Arena, email: string, password: string, address: string) =>
  fetch(`${arena.url}/auth/sign-in`, {
    method: "POST",
    headers: { "Content-Type": "application/json", [ADDRESS_HEADER]: address },
    body: JSON.stringify({ email, password }),
  })

async function signUp(
  arena: Arena,
  address: string,
): Promise<{ readonly email: string; readonly status: number; readonly code: string | null }> {
  const email = `d${crypto.randomUUID()}@example.com`
  const response = await fetch(`${arena.url}/auth/sign-up`, {
    method: "POST",
    headers: { "Content-Type": "application/json", [ADDRESS_HEADER]: address },
    body: JSON.stringify({ email, password: "correct horse battery" }),
  })
  return { email, status: response.status, code: response.headers.get("x-error-code") }
}

async function lockOut(arena: Arena, { known }: { readonly known: boolean }): Promise<Finding> {
  const home = known ? "198.51.100.9" : "198.51.100.77"
  const { email } = await signUp(arena, "198.51.100.9")
  if (known) await signIn(arena, email, "correct horse battery", home)
  let guesses = 0
  const over = new AbortController()
  const guess = async () => {
    while (!over.signal.aborted) {
      guesses++
      const response = await signIn(arena, email, `wrong ${guesses}`, known ? "203.0.113.2" : "203.0.113.102").catch(
        () => undefined,
      )
      await response?.text()
      await Bun.sleep(50)
    }
  }
  const guessing = Array.from({ length: 4 }, guess)
  await Bun.sleep(5_000)
  const owner: string[] = []
  for (let attempt = 0; attempt < 2; attempt++) {
    const at = performance.now()
    const response = await signIn(arena, email, "correct horse battery", home)
    owner.push(`${response.status} in ${((performance.now() - at) / 1_000).toFixed(1)} s`)
  }
  over.abort()
  await Promise.all(guessing)
  return {
    tried: `${guesses} wrong guesses from one address; the owner signs in at ${known ? "her own" : "a new one"}`,
    seen: owner.join(", "),
    held: owner.every((each) => each.startsWith("200")),
  }
}

async function manySignUps(arena: Arena, most: number): Promise<Finding[]> {
  const crowd = async (tried: string, address: (n: number) => string, wanted: boolean): Promise<Finding> => {
    let made = 0
    let refused: string | undefined
    const at = performance.now()
    let next = 0
    const one = async () => {
      while (next < most && refused === undefined) {
        const { status, code } = await signUp(arena, address(next++))
        if (status === 201) made++
        else refused = code ?? String(status)
      }
    }
    await Promise.all(Array.from({ length: 8 }, one))
    const seconds = ((performance.now() - at) / 1_000).toFixed(1)
    const seen = `${made} made in ${seconds} s${refused === undefined ? "" : `, then ${refused}`}`
    return {
      tried: `${most} sign-ups ${tried}`,
      seen,
      held: wanted ? refused === "rate_limit.sign_up" : refused === undefined,
    }
  }
  return await Promise.all([
    crowd("from one address", () => "203.0.113.5", true),
    crowd("from one /64 of IPv6", (n) => `2001:db8:7:1::${(n + 1).toString(16)}`, true),
    crowd("from loopback", () => "127.0.0.1", false),
  ])
}

async function manyKeys(arena: Arena): Promise<Finding> {
  const attacker = await arena.attacker(0)
  let made = 1
  let refused = ""
  let attempts = 0
  const one = async () => {
    while (attempts < 230 && refused === "") {
      attempts++
      const response = await attacker.dashboard("/keys", "POST", { name: `k${attempts}` })
      if (response.status === 201) made++
      else refused = `${response.status} ${response.headers.get("x-error-code")}`
    }
  }
  await Promise.all(Array.from({ length: 8 }, one))
  const list = (await (await attacker.dashboard("/keys")).json()) as { data: unknown[]; next_cursor?: unknown }
  return {
    tried: "230 keys in one account, eight at a time",
    seen: `${made} made${refused === "" ? "" : `, then ${refused}`}; GET /keys lists ${list.data.length}${"next_cursor" in list ? " and has a cursor" : ""}`,
    held: made === 200 && "next_cursor" in list,
  }
}

/** More at once than the gateway can take: that is no outage of its database. */
async function burst(arena: Arena, streams: number): Promise<Finding> {
  const attacker = await arena.attacker(1_000_000)
  const mark = attacker.plays({ pieces: 4, everyMs: 1_500, counts: { input: 30, output: 4 } })
  const body = asking("chat", WIDE, mark, { stream: true, max_tokens: 10 })
  const answers = await Promise.all(
    Array.from({ length: streams }, () => attacker.call("chat", body).catch(() => undefined)),
  )
  const told = answers.map((answer) =>
    answer === undefined ? "lost" : (answer.code ?? (answer.ended ? "whole" : "failed")),
  )
  const tally = [...new Set(told)].map((each) => `${told.filter((other) => other === each).length} ${each}`)
  return {
    tried: `${streams.toLocaleString("en")} streams opened at once`,
    seen: tally.join(", "),
    held: told.every((each) => each === "whole" || each === "gateway.capacity"),
  }
}

/** The lease of an account's money waits for longer than a hold does. */
async function heldUp(arena: Arena): Promise<Finding> {
  if (arena.place.url === undefined)
    return { tried: "a locked balance", seen: "not on an embedded database", held: true }
  const attacker = await arena.attacker(10_000)
  // What is leased is spent, so that the next hold needs more of it.
  const dear = attacker.plays({ counts: { input: 190_000, output: 5 } })
  await attacker.call("messages", asking("messages", "claude-opus-4-5", dear))
  await attacker.topUp(10_000)
  const { promise: over, resolve: end } = Promise.withResolvers<void>()
  const { promise: locked, resolve: begun } = Promise.withResolvers<void>()
  const locking = arena.place.books((sql) =>
    sql.begin(async (tx) => {
      await tx`select * from balances where account_id = ${attacker.accountId} for update`
      begun()
      await over
    }),
  )
  await locked
  const at = performance.now()
  const answer = await attacker.call("chat", asking("chat", "gpt-oss-20b", attacker.plays({}), { max_tokens: 5 }))
  const seconds = ((performance.now() - at) / 1_000).toFixed(1)
  end()
  await locking
  return {
    tried: "a hold whose lease cannot grow, for a lock",
    seen: `${answer.code ?? answer.status} after ${seconds} s`,
    held: answer.status === 503 && answer.code === "dependency.database_unavailable",
  }
}

/** One account with many keys keeps a model's cap and its queue full. */
async function keysFill(arena: Arena, keys: number): Promise<Finding> {
  const attacker = await arena.attacker(50_000)
  const victim = await arena.attacker(50_000)
  const pool = await Promise.all(Array.from({ length: keys - 1 }, () => attacker.moreKey()))
  const all = [attacker.key, ...pool.map(({ key }) => key)]
  const turnMs = 700
  const mark = attacker.plays({ afterMs: turnMs })
  const body = asking("chat", NARROW, mark, { max_tokens: 5 })
  const over = new AbortController()
  const filling = Array.from({ length: NARROW_CAP * 6 }, async (_, at) => {
    for (let turn = 0; !over.signal.aborted; turn++) {
      const key = all[(at + turn * NARROW_CAP * 6) % all.length]!
      const { status } = await attacker.call("chat", body, { key }).catch(() => ({ status: 0 }))
      if (status !== 200) await Bun.sleep(20)
    }
  })
  await Bun.sleep(1_000)
  const seen: string[] = []
  let slowest = 0
  for (let call = 0; call < 6; call++) {
    const at = performance.now()
    const answer = await victim.call("chat", asking("chat", NARROW, victim.plays({}), { max_tokens: 5 }))
    slowest = Math.max(slowest, performance.now() - at)
    seen.push(`${answer.code ?? answer.status} ${((performance.now() - at) / 1_000).toFixed(2)} s`)
  }
  over.abort()
  await Promise.all(filling)
  return {
    tried: `${keys} keys of one account fill a cap of ${NARROW_CAP}, ${turnMs} ms a turn; another's calls`,
    seen: seen.join(", "),
    held: seen.every((each) => each.startsWith("200")) && slowest < 2 * turnMs,
  }
}

export const crowdsRows: readonly Row[] = [
  { id: "D3", beside: true, wanted: "idle connections are closed, calls under way are spared", play: idle },
  {
    id: "D3",
    long: true,
    wanted: "the limit of descriptors is left again",
    play: async (arena) => [await exhausted(arena.root)],
  },
  {
    id: "D4",
    beside: true,
    wanted: "guesses from elsewhere do not keep the owner out",
    play: (arena) => Promise.all([lockOut(arena, { known: true }), lockOut(arena, { known: false })]),
  },
  {
    id: "D7",
    wanted: "429 rate_limit.sign_up by network, loopback exempt",
    play: (arena, { full }) => manySignUps(arena, full ? 200 : 30),
  },
  { id: "D7", wanted: "200 keys an account", play: async (arena) => [await manyKeys(arena)] },
  {
    id: "D8",
    wanted: "whole, or gateway.capacity",
    play: async (arena) => [await burst(arena, 3_000)],
  },
  { id: "D8", beside: true, wanted: "503, not 500", play: async (arena) => [await heldUp(arena)] },
  {
    id: "D9",
    wanted: "turns go round by account",
    play: async (arena, { full }) => [await keysFill(arena, full ? 200 : 30)],
  },
]
