/** A device with passkeys, in software: P-256, no attestation. It signs whatever it is told to, also what a real one would not. */
import { createHash, createSign, generateKeyPairSync, type KeyObject, randomBytes } from "node:crypto"

const sha256 = (data: Uint8Array | string) => createHash("sha256").update(data).digest()
const base64url = (bytes: Uint8Array | string) => Buffer.from(bytes).toString("base64url")
const text = (value: string) => Buffer.concat([Buffer.from([0x60 + value.length]), Buffer.from(value)])
const twoBytes = (value: number) => Buffer.from([value >> 8, value & 255])
/** Of CBOR, of 24 bytes or more. */
const bytes = (value: Uint8Array) =>
  Buffer.concat([
    value.length < 256 ? Buffer.from([0x58, value.length]) : Buffer.concat([hex("59"), twoBytes(value.length)]),
    value,
  ])

/** What it says beside the truth. */
export interface Lies {
  readonly origin?: string
  readonly rpId?: string
  readonly challenge?: string
  readonly type?: string
  readonly userVerified?: boolean
  readonly counter?: number
  /** It may be at several devices, and is. */
  readonly synced?: boolean
  readonly userHandle?: string | undefined
  /** Signs with another key. */
  readonly key?: KeyObject
}

interface Asked {
  readonly challenge: string
  readonly rp?: { readonly id?: string }
  readonly rpId?: string
  readonly user?: { readonly id: string }
}

export class Authenticator {
  readonly id: Buffer
  /** Zero for a device that does not count. */
  counter = 0
  readonly #keys = generateKeyPairSync("ec", { namedCurve: "P-256" })
  readonly #origin: string
  #userHandle = ""

  constructor(origin: string, idBytes = 32) {
    this.id = randomBytes(idBytes)
    this.#origin = origin
  }

  make(asked: Asked, lies: Lies = {}) {
    this.#userHandle = asked.user?.id ?? ""
    const { x = "", y = "" } = this.#keys.publicKey.export({ format: "jwk" })
    const [left, right] = [x, y].map((part) => bytes(Buffer.from(part, "base64url")))
    const key = Buffer.concat([hex("a5010203262001"), hex("21"), left ?? hex(""), hex("22"), right ?? hex("")])
    const credential = Buffer.concat([Buffer.alloc(16), twoBytes(this.id.length), this.id, key])
    const data = this.#data(asked, lies, credential)
    const attestationObject = Buffer.concat([
      hex("a3"),
      text("fmt"),
      text("none"),
      text("attStmt"),
      hex("a0"),
      text("authData"),
      bytes(data),
    ])
    const response = {
      clientDataJSON: base64url(this.#client("webauthn.create", asked, lies)),
      attestationObject: base64url(attestationObject),
      transports: ["internal"],
    }
    return { ...this.#credential(), response }
  }

  sign(asked: Asked, lies: Lies = {}) {
    const client = this.#client("webauthn.get", asked, lies)
    const data = this.#data(asked, lies)
    const signature = createSign("sha256")
      .update(Buffer.concat([data, sha256(client)]))
      .sign(lies.key ?? this.#keys.privateKey)
    const userHandle = "userHandle" in lies ? lies.userHandle : this.#userHandle
    const response = {
      clientDataJSON: base64url(client),
      authenticatorData: base64url(data),
      signature: base64url(signature),
      ...(userHandle !== undefined && { userHandle }),
    }
    return { ...this.#credential(), response }
  }

  #credential() {
    const id = base64url(this.id)
    return { id, rawId: id, type: "public-key", clientExtensionResults: {} }
  }

  #client(type: string, { challenge }: Asked, lies: Lies): string {
    const said = {
      type: lies.type ?? type,
      challenge: lies.challenge ?? challenge,
      origin: lies.origin ?? this.#origin,
    }
    return JSON.stringify({ ...said, crossOrigin: false })
  }

  #data({ rp, rpId }: Asked, lies: Lies, credential = Buffer.alloc(0)): Buffer {
    const counter = Buffer.alloc(4)
    counter.writeUInt32BE(lies.counter ?? this.counter)
    const copies = lies.synced === true ? 0x18 : 0
    const flags = 0x01 | (lies.userVerified === false ? 0 : 0x04) | copies | (credential.length === 0 ? 0 : 0x40)
    return Buffer.concat([sha256(lies.rpId ?? rpId ?? rp?.id ?? ""), Buffer.from([flags]), counter, credential])
  }
}

const hex = (value: string) => Buffer.from(value, "hex")
