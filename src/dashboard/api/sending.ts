/**
 * The one way in which the page sends. A change carries an `Idempotency-Key`, made anew for each change that a person means,
 * not for each time that it is sent: whether a lost one was carried out is not known, so it is sent again with the same key,
 * by itself twice, and by who presses again within ten minutes. Milliseconds.
 */
interface Parts {
  readonly fetch: (input: string, init?: RequestInit) => Promise<Response>
  readonly now: () => number
  readonly pause: (ms: number) => Promise<void>
  readonly newKey: () => string
}

interface Intent {
  readonly key: string
  readonly untilMs: number
}

const PAUSES_MS = [400, 1_500]
const KEPT_MS = 10 * 60_000
const MOST_KEPT = 100
/** How often it is asked what became of a change that is being carried out. */
const LOOKS = 10

const inPage: Parts = {
  fetch: (input, init) => fetch(input, init),
  now: Date.now,
  pause: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  // `randomUUID` is not there over plain http.
  newKey: () =>
    [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join(""),
}

export function sender({ fetch, now, pause, newKey }: Parts = inPage) {
  /** Changes whose outcome is not known, by what would be sent. */
  const open = new Map<string, Intent>()

  const intentOf = (sent: string): Intent => {
    for (const [other, { untilMs }] of open) if (untilMs <= now() || open.size > MOST_KEPT) open.delete(other)
    const intent = open.get(sent) ?? { key: newKey(), untilMs: now() + KEPT_MS }
    open.set(sent, intent)
    return intent
  }

  return async (input: string, init: RequestInit = {}): Promise<Response> => {
    const { method = "GET", body } = init
    const isChange = method !== "GET" && method !== "HEAD"
    // Who signs in or up has no account yet to which a key could belong.
    if (!isChange || /\/auth\/sign-(?:in|up)$/.test(input)) return await fetch(input, init)
    const sent = `${method} ${input}\n${typeof body === "string" ? body : ""}`
    const intent = intentOf(sent)
    const headers = new Headers(init.headers)
    headers.set("Idempotency-Key", intent.key)
    const response = await persistently({ pause }, () => fetch(input, { ...init, headers }), init.signal)
    if (response.status < 500 && !isInProgress(response) && open.get(sent) === intent) open.delete(sent)
    return response
  }
}

async function persistently(
  { pause }: Pick<Parts, "pause">,
  send: () => Promise<Response>,
  signal: AbortSignal | null | undefined,
): Promise<Response> {
  let looks = 0
  for (let lost = 0; ;) {
    try {
      const response = await send()
      if (!isInProgress(response) || ++looks > LOOKS) return response
      await pause(1_000 * Number(response.headers.get("retry-after") ?? 1))
    } catch (error) {
      const pauseMs = PAUSES_MS[lost++]
      if (pauseMs === undefined || signal?.aborted === true) throw error
      await pause(pauseMs)
    }
  }
}

const isInProgress = ({ status, headers }: Response): boolean =>
  status === 409 && headers.get("x-error-code") === "idempotency.in_progress"
