/**
 * Passkeys (WebAuthn): what a device is asked to sign, and whether what it signed is true. The library judges signatures,
 * origins and counters; here stands what it is asked with. Whose passkey may do what is the business of `second-factor.ts`.
 */
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from "@simplewebauthn/server"
import type {
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
} from "@simplewebauthn/server"
import { isIP } from "node:net"
import { Failure, invalid } from "../failure/failure.ts"
import type { Log } from "../log.ts"
import type { Account } from "../store/accounts.ts"
import type { Session } from "./accounts.ts"
import {
  CHALLENGE_MINUTES,
  type Credential,
  type OwnedCredential,
  type Passkey,
  type PasskeyStore,
  type Purpose,
} from "../store/passkeys.ts"

export type Assertion = AuthenticationResponseJSON
export type Attestation = RegistrationResponseJSON
export type CreationOptions = PublicKeyCredentialCreationOptionsJSON
export type RequestOptions = PublicKeyCredentialRequestOptionsJSON

/** For whom passkeys are made: a domain, and the one origin of its pages. Or why there can be none. */
export type RelyingParty =
  | { readonly id: string; readonly origin: string; readonly unavailable?: never }
  | { readonly unavailable: string }

/**
 * Never from a request's headers, which any visitor writes. Without PUBLIC_URL a browser on this machine can still have
 * passkeys, at `localhost`.
 */
export function relyingParty(publicUrl: string | undefined, port: number): RelyingParty {
  const { hostname, protocol, origin } = new URL(publicUrl ?? `http://localhost:${port}`)
  const isLocal = hostname === "localhost" || hostname.endsWith(".localhost")
  if (isIP(hostname.replaceAll(/[[\]]/g, "")) !== 0)
    return { unavailable: "Passkeys need a domain name, and PUBLIC_URL names an IP address." }
  if (protocol !== "https:" && !isLocal) return { unavailable: "Passkeys need https, and PUBLIC_URL has none." }
  return { id: hostname, origin }
}

export interface PasskeysOptions {
  readonly store: PasskeyStore
  /** Asked for each time: a port that the system chose is known once the gateway listens. */
  readonly party: () => RelyingParty
  readonly log: Log
}

/** Loaded with the first use, because it takes as long as the rest of the gateway's start. */
const library = async () => {
  // The library's own parts for certificates need it before them.
  await import("reflect-metadata")
  const loaded = await import("@simplewebauthn/server")
  // None is asked for, so nobody's is followed: 24 KB of certificates that may have issued each other took 2 s of the processors.
  for (const identifier of ROOTED) loaded.SettingsService.setRootCertificates({ identifier, certificates: [] })
  return loaded
}
/** Kinds of attestations that the library would trace to their makers. */
const ROOTED = ["android-key", "android-safetynet", "apple", "mds"] as const

const NOBODY = new Uint8Array(0)
/** Of a credential's id, in bytes (WebAuthn Level 3, 7.1). */
const LONGEST_ID = 1_023

/** Asked before the database is: what cannot be an id names nothing. */
export const isPasskeyId = (text: string): boolean => /^pk_[A-Za-z0-9_-]{1,40}$/.test(text)
const timeout = CHALLENGE_MINUTES * 60_000

export class Passkeys {
  readonly #parts: PasskeysOptions

  constructor(parts: PasskeysOptions) {
    this.#parts = parts
  }

  get party(): RelyingParty {
    return this.#parts.party()
  }

  list({ accountId }: Pick<Session, "accountId">): Promise<readonly Passkey[]> {
    return this.#parts.store.list(accountId)
  }

  async rename({ accountId }: Pick<Session, "accountId">, id: string, name: string): Promise<Passkey | Failure> {
    const renamed = isPasskeyId(id) ? await this.#parts.store.rename(accountId, id, name) : undefined
    return renamed ?? new Failure("resource.not_found")
  }

  /** What a browser makes a passkey by, in the session with this token's hash. */
  async offer(account: Account, boundTo: Uint8Array): Promise<CreationOptions | Failure> {
    const { party } = this
    if (party.unavailable !== undefined) return unavailable(party.unavailable)
    const known = await this.#parts.store.credentialsOf(account.id)
    const challenge = await this.#ask("register", boundTo)
    const { generateRegistrationOptions } = await library()
    return await generateRegistrationOptions({
      rpName: "Loket",
      rpID: party.id,
      userID: new TextEncoder().encode(account.id),
      userName: account.email,
      userDisplayName: account.email,
      challenge,
      timeout,
      attestationType: "none",
      excludeCredentials: known.map(described),
      authenticatorSelection: { residentKey: "required", userVerification: "required" },
    })
  }

  /** Judges what the browser made. Its challenge is used up whatever comes of it. */
  async verifyNew(response: Attestation, boundTo: Uint8Array): Promise<Credential | Failure> {
    const { party } = this
    if (party.unavailable !== undefined) return unavailable(party.unavailable)
    const challenge = await this.#challengeOf(response.response.clientDataJSON, "register", boundTo)
    if (challenge === undefined) return notAccepted()
    const { verifyRegistrationResponse } = await library()
    const terms = { expectedChallenge: challenge, expectedOrigin: party.origin, expectedRPID: party.id }
    const judged = await this.#verified(() =>
      verifyRegistrationResponse({ ...terms, response, requireUserVerification: true }),
    )
    if (judged?.verified !== true) return notAccepted()
    const { id, publicKey, counter } = judged.registrationInfo.credential
    const credentialId = fromBase64Url(id)
    if (credentialId.length > LONGEST_ID) return notAccepted()
    return {
      credentialId,
      publicKey: new Uint8Array(publicKey),
      counter,
      transports: response.response.transports ?? [],
    }
  }

  /** What a device is to sign: one of the account's passkeys, or without an account any that it has for this domain. */
  async request(purpose: Purpose, boundTo: Uint8Array = NOBODY, accountId?: string): Promise<RequestOptions | Failure> {
    const { party } = this
    if (party.unavailable !== undefined) return unavailable(party.unavailable)
    const known = accountId === undefined ? undefined : await this.#parts.store.credentialsOf(accountId)
    if (known?.length === 0) return invalid("The account has no passkey.")
    const challenge = await this.#ask(purpose, boundTo)
    const { generateAuthenticationOptions } = await library()
    return await generateAuthenticationOptions({
      rpID: party.id,
      challenge,
      timeout,
      userVerification: "required",
      ...(known !== undefined && { allowCredentials: known.map(described) }),
    })
  }

  /** Whose passkey has signed. The same refusal for one that nobody has, and for one that signed wrongly. */
  async verify(
    response: Assertion,
    purpose: Purpose,
    boundTo: Uint8Array = NOBODY,
  ): Promise<OwnedCredential | Failure> {
    const { store, log } = this.#parts
    const { party } = this
    if (party.unavailable !== undefined) return unavailable(party.unavailable)
    const challenge = await this.#challengeOf(response.response.clientDataJSON, purpose, boundTo)
    if (challenge === undefined) return notAccepted()
    const found = await store.find(fromBase64Url(response.id))
    if (found === undefined) return notAccepted()
    const { userHandle } = response.response
    // Where no account is named before, the device must say whose it is.
    const owner = userHandle === undefined ? undefined : fromBase64Url(userHandle).toString()
    if (owner !== found.accountId && (purpose === "sign-in" || owner !== undefined)) return notAccepted()
    const { verifyAuthenticationResponse } = await library()
    const terms = { expectedChallenge: challenge, expectedOrigin: party.origin, expectedRPID: party.id }
    // The counter is judged below, where it is written: two uses at once are judged one after the other.
    const credential = { id: response.id, publicKey: new Uint8Array(found.publicKey), counter: 0 }
    const judged = await this.#verified(() =>
      verifyAuthenticationResponse({ ...terms, response, credential, requireUserVerification: true }),
    )
    if (judged?.verified !== true) return notAccepted()
    const { newCounter, credentialDeviceType: at } = judged.authenticationInfo
    // One that is kept in step between devices is counted by each, or was by some: no counter tells of a copy (WebAuthn Level 3, 6.1.1).
    if (await store.used(found.id, { counter: newCounter, isShared: at === "multiDevice" })) return found
    const counts = { stored: found.counter, shown: newCounter }
    log.warn("passkey refused: its counter went back", { account_id: found.accountId, passkey_id: found.id, ...counts })
    return notAccepted()
  }

  async #ask(purpose: Purpose, boundTo: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
    const challenge = crypto.getRandomValues(new Uint8Array(32))
    await this.#parts.store.ask({ challenge, purpose, boundTo })
    return challenge
  }

  /** The challenge that was signed, if it is one of ours; it is used up. */
  async #challengeOf(clientData: string, purpose: Purpose, boundTo: Uint8Array): Promise<string | undefined> {
    const challenge = challengeIn(clientData)
    if (challenge === undefined) return undefined
    const bytes = fromBase64Url(challenge)
    return (await this.#parts.store.take({ challenge: bytes, purpose, boundTo })) ? challenge : undefined
  }

  /** The library throws what it does not accept. */
  async #verified<T>(judge: () => Promise<T>): Promise<T | undefined> {
    try {
      return await judge()
    } catch (error) {
      this.#parts.log.info("passkey refused", { reason: String(error).slice(0, 300) })
      return undefined
    }
  }
}

const fromBase64Url = (text: string): Buffer => Buffer.from(text, "base64url")

const described = ({ credentialId, transports }: Credential) => ({
  id: Buffer.from(credentialId).toString("base64url"),
  transports: [...transports],
})

function challengeIn(clientData: string): string | undefined {
  try {
    const said: unknown = JSON.parse(fromBase64Url(clientData).toString())
    const isSaid = typeof said === "object" && said !== null && "challenge" in said
    return isSaid && typeof said.challenge === "string" ? said.challenge : undefined
  } catch {
    return undefined
  }
}

const unavailable = (message: string): Failure => new Failure("request.unsupported_feature", { message })
const notAccepted = (): Failure =>
  new Failure("auth.unauthorized", { message: "The passkey was not accepted; begin again." })
