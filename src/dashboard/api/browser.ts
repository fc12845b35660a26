/**
 * What the page asks of the browser: passkeys, the time zones that it knows, and what it calls itself. What talks to a passkey's
 * device is loaded when a person asks for it.
 *
 * And what this browser keeps for a person: conversations of the playground, in its own database, and the secret of the key that
 * was made last, in this tab's memory alone. Both are forgotten with everything else of the account when somebody signs out.
 */
import { type QueryClient, type QueryKey, queryOptions, skipToken, useQuery } from "@tanstack/react-query"
import type { CreationOptions, RequestOptions } from "../../accounts/passkeys.ts"
import { type Language, texts } from "../i18n/language.tsx"
import { api, unwrap } from "./client.ts"
import { keysQuery } from "./queries.ts"

export const passkeysQuery = queryOptions({
  queryKey: ["passkeys"],
  queryFn: () => unwrap(api.account.passkeys.get()),
})

/** Browsers have them on pages that nobody can listen in to, and a passkey belongs to one address. */
export const canUsePasskeys = (origin: string | null | undefined): boolean =>
  origin === location.origin && "PublicKeyCredential" in globalThis

const troubles = {
  NotAllowedError: "cancelled",
  AbortError: "cancelled",
  InvalidStateError: "known",
  SecurityError: "elsewhere",
  NotSupportedError: "unsupported",
  ConstraintError: "unsupported",
} as const
type Trouble = (typeof troubles)[keyof typeof troubles] | "failed"

/** The device has not signed. */
class PasskeyError extends Error {
  readonly trouble: Trouble

  constructor(cause: unknown) {
    super("the device has not signed", { cause })
    const name = cause instanceof Error ? cause.name : ""
    this.trouble = Object.entries(troubles).find(([known]) => known === name)?.[1] ?? "failed"
  }
}

/** As answers are typed. */
type Sent<T> = T extends object ? { readonly [Name in keyof T]: Sent<T[Name]> } : T

const library = () => import("@simplewebauthn/browser")

export const makePasskey = (options: Sent<CreationOptions>) =>
  library()
    .then(({ startRegistration }) => startRegistration({ optionsJSON: options as CreationOptions }))
    .catch((error: unknown) => {
      throw new PasskeyError(error)
    })

export const signByPasskey = (options: Sent<RequestOptions>) =>
  library()
    .then(({ startAuthentication }) => startAuthentication({ optionsJSON: options as RequestOptions }))
    .catch((error: unknown) => {
      throw new PasskeyError(error)
    })

/** What the server takes from who changes a second factor. */
export async function proofOf(typed: { readonly password: string; readonly code: string }, hasPasskey: boolean) {
  const { password, code } = typed
  if (code.trim() !== "" || !hasPasskey) return { password, code }
  return { password, passkey: await signByPasskey(await unwrap(api.account.passkeys.proof.post())) }
}

/** The words for a device that has not signed; undefined for any other error. */
export function usePasskeyError(): (error: Error | null) => string | undefined {
  const text = useTroubles()
  return (error) => (error instanceof PasskeyError ? text[error.trouble] : undefined)
}

const useTroubles = texts({
  id: {
    cancelled: "Passkey tidak jadi dipakai, atau waktunya habis. Coba lagi jika memang ingin memakainya.",
    known:
      "Perangkat ini sudah menyimpan passkey untuk akun Anda. Pakai passkey itu, atau tambahkan dari perangkat lain.",
    elsewhere: "Passkey tidak berlaku di alamat ini. Buka dasbor di alamat resminya.",
    unsupported:
      "Perangkat ini tidak dapat menyimpan passkey yang dilindungi PIN, sidik jari, atau wajah. Coba perangkat lain.",
    failed: "Perangkat tidak dapat memakai passkey. Coba lagi, atau pakai perangkat lain.",
  },
  en: {
    cancelled: "The passkey was not used, or the time ran out. Try again if you meant to use it.",
    known: "This device already keeps a passkey for your account. Use that one, or add one from another device.",
    elsewhere: "Passkeys do not work at this address. Open the dashboard at its own address.",
    unsupported: "This device cannot keep a passkey behind a PIN, a fingerprint or a face. Try another device.",
    failed: "The device could not use a passkey. Try again, or use another device.",
  },
})

/** All time zones, and the account's own if the browser does not know it. */
export function timeZonesWith(own: string): readonly string[] {
  const known = ["UTC", ...Intl.supportedValuesOf("timeZone").filter((zone) => zone !== "UTC")]
  return known.includes(own) ? known : [own, ...known]
}

const LOCALES = { id: "id-ID", en: "en-GB" } as const satisfies Record<Language, string>
const described = new Map<string, string>()

/** "GMT+7 · Waktu Indonesia Barat". */
export function describeZone(zone: string, language: Language): string {
  const key = `${language} ${zone}`
  const known = described.get(key)
  if (known !== undefined) return known
  const description = [
    ...new Set([named(zone, LOCALES[language], "shortOffset"), named(zone, LOCALES[language], "long")]),
  ]
    .filter((name) => name !== "")
    .join(" · ")
  described.set(key, description)
  return description
}

export const zoneName = (zone: string): string => zone.replaceAll("_", " ")

/** Each word that is searched for must be somewhere in the zone's name, its description, or its abbreviation. */
export function zoneMatches(zone: string, query: string, language: Language): boolean {
  const words = plain(query).split(" ").filter(Boolean)
  const about = plain(`${zone} ${describeZone(zone, language)} ${named(zone, LOCALES.id, "short")}`)
  return words.every((word) => about.includes(word))
}

const plain = (text: string): string => text.toLowerCase().replaceAll(/[_/\s]+/g, " ")

/** A browser may not know a zone that the server does. */
function named(zone: string, locale: string, timeZoneName: "shortOffset" | "short" | "long"): string {
  try {
    const parts = new Intl.DateTimeFormat(locale, { timeZone: zone, timeZoneName }).formatToParts()
    return parts.find(({ type }) => type === "timeZoneName")?.value ?? ""
  } catch {
    return ""
  }
}

/** In this order: many claim to be those below them too. */
const BROWSERS = [
  ["Edge", /\bEdg(?:e|A|iOS)?\//],
  ["Opera", /\bOPR\//],
  ["Samsung Internet", /\bSamsungBrowser\//],
  ["Firefox", /\b(?:Firefox|FxiOS)\//],
  ["Chrome", /\b(?:HeadlessChrome|Chrome|CriOS)\//],
  ["Safari", /\bSafari\//],
  ["curl", /^curl\//],
] as const

const SYSTEMS = [
  ["iPhone", /\biPhone\b/],
  ["iPad", /\biPad\b/],
  ["Android", /\bAndroid\b/],
  ["ChromeOS", /\bCrOS\b/],
  ["Windows", /\bWindows\b/],
  ["macOS", /\bMac OS X\b/],
  ["Linux", /\bLinux\b/],
] as const

interface Device {
  readonly browser: string | undefined
  readonly system: string | undefined
}

export const deviceOf = (userAgent: string): Device => ({
  browser: BROWSERS.find(([, pattern]) => pattern.test(userAgent))?.[0],
  system: SYSTEMS.find(([, pattern]) => pattern.test(userAgent))?.[0],
})

const DATABASE = "loket-playground"
const STORE = "conversations"

/** The oldest go first. */
const MAX_CONVERSATIONS = 30
/** UTF-16 units of all of one owner, images included. */
const MAX_SIZE = 20 * 1024 * 1024

export interface Kept<Exchange> {
  readonly id: string
  /** The person and the account. */
  readonly owner: string
  /** Milliseconds since 1970. */
  readonly at: number
  readonly model: string
  readonly system: string
  readonly exchanges: readonly Exchange[]
}

const settled = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.addEventListener("success", () => resolve(request.result))
    request.addEventListener("error", () => reject(request.error ?? new Error("no database")))
  })

function opened(): Promise<IDBDatabase> {
  const request = indexedDB.open(DATABASE, 1)
  request.addEventListener("upgradeneeded", () => request.result.createObjectStore(STORE, { keyPath: "id" }))
  return settled(request)
}

/** Does the work in one transaction; undefined where the browser does not let it. */
async function within<T>(work: (store: IDBObjectStore) => Promise<T>): Promise<T | undefined> {
  try {
    const database = await opened()
    try {
      return await work(database.transaction(STORE, "readwrite").objectStore(STORE))
    } finally {
      database.close()
    }
  } catch {
    return undefined
  }
}

const all = async (store: IDBObjectStore) => (await settled(store.getAll())) as readonly Kept<unknown>[]

/** The newest first. */
export async function keptConversations<Exchange>(owner: string): Promise<readonly Kept<Exchange>[]> {
  const kept = (await within(all)) ?? []
  return (kept as readonly Kept<Exchange>[]).filter((each) => each.owner === owner).toSorted((a, b) => b.at - a.at)
}

/** In the place of what was kept of it before. What is over the bounds goes, the oldest first. */
export const keepConversation = (conversation: Kept<unknown>) =>
  within(async (store) => {
    if (sizeOf(conversation) > MAX_SIZE) return
    await settled(store.put(conversation))
    const own = (await all(store)).filter(({ owner }) => owner === conversation.owner).toSorted((a, b) => b.at - a.at)
    let size = 0
    for (const [index, each] of own.entries()) {
      size += sizeOf(each)
      if (index >= MAX_CONVERSATIONS || size > MAX_SIZE) await settled(store.delete(each.id))
    }
  })

const sizeOf = (conversation: Kept<unknown>): number => JSON.stringify(conversation).length

export const deleteConversations = (which: (conversation: Kept<unknown>) => boolean) =>
  within(async (store) => {
    for (const each of await all(store)) if (which(each)) await settled(store.delete(each.id))
  })

const KEPT_MS = 30 * 60_000

const freshKeyQuery = queryOptions<string>({
  queryKey: ["fresh-key"],
  queryFn: skipToken,
  gcTime: KEPT_MS,
  staleTime: Number.POSITIVE_INFINITY,
})

/** In this tab's memory alone, for half an hour at most after it was last shown. */
export function keepInTab(client: QueryClient, key: QueryKey, value: unknown): void {
  client.setQueryDefaults(key, { gcTime: KEPT_MS })
  client.setQueryData(key, value)
}

export const keepFreshKey = (client: QueryClient, secret: string): void =>
  keepInTab(client, freshKeyQuery.queryKey, secret)

/** The secret and what is known of its key; undefined where none was made lately, or it works no more. */
export function useFreshKey() {
  const { data: secret } = useQuery(freshKeyQuery)
  const { data } = useQuery(keysQuery)
  const key = data?.keys.find(({ status, last4 }) => status === "active" && secret?.endsWith(last4))
  return secret === undefined || key === undefined ? undefined : { secret, name: key.name }
}

/** Fields that somebody has written in. */
const written = new Set<HTMLInputElement | HTMLTextAreaElement>()

/** From now on. */
export function noteWriting(): void {
  document.addEventListener("input", ({ target }) => {
    const isField = target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement
    // A search is in the page's address, and a choice is made again with one press.
    if (isField && target.closest("search") === null && !["checkbox", "radio"].includes(target.type))
      written.add(target)
  })
}

/** Whether a field on the page has what somebody wrote in it. */
export function isBeingWritten(): boolean {
  for (const field of written) if (!field.isConnected) written.delete(field)
  return [...written].some(({ value }) => value !== "")
}

/** As a download. */
export function save(file: Blob, name: string): void {
  const link = document.createElement("a")
  link.href = URL.createObjectURL(file)
  link.download = name
  link.click()
  // The download has started by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}
