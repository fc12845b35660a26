/**
 * Which account this page is about. Every call says so, because the choice is the session's and another tab may have made
 * another one meanwhile: the server then refuses what was meant for the account before.
 */
let shown: string | undefined

/** Before anything is asked for; undefined for a visitor. */
export const pageIsAbout = (accountId: string | undefined): void => void (shown = accountId)

/** The account itself is asked for without, because its answer says which one it is. */
const isTheQuestion = (input: string, method: string): boolean =>
  method === "GET" && new URL(input, location.origin).pathname === "/account"

export function meant(input: string, init: RequestInit = {}): RequestInit {
  if (shown === undefined || isTheQuestion(input, init.method ?? "GET")) return init
  const headers = new Headers(init.headers)
  headers.set("X-Account-Id", shown)
  return { ...init, headers }
}
