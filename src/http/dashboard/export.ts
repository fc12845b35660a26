/** `POST /account/export`: all that is known of an account, for whoever has its password. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import type { Accounts } from "../../accounts/accounts.ts"
import { SomePassword } from "../../accounts/fields.ts"
import { Failure } from "../../failure/failure.ts"
import type { AllowanceStore } from "../../store/allowances.ts"
import { type Authenticate, signedInBy, whereabouts } from "./session.ts"

export interface ExportDeps {
  readonly accounts: Pick<Accounts, "confirm">
  readonly allowances: Pick<AllowanceStore, "take">
  readonly personalExport: (accountId: string) => AsyncGenerator<string>
  readonly authenticate: Authenticate
}

const DAY_S = 24 * 60 * 60
/** Of one account in a day: each reads its whole history. */
export const EXPORTS_A_DAY = 5

export const exportController = ({ accounts, allowances, personalExport, authenticate }: ExportDeps) =>
  new Elysia({ name: "dashboard/export" }).post(
    ...signedInBy(authenticate)(
      "/account/export",
      {
        may: "self",
        tag: "Account",
        summary: {
          en: "All that is known of the account, as one JSON file",
          id: "Semua yang diketahui tentang akun ini, dalam satu berkas JSON",
        },
        description: {
          en: `The account and its settings, sessions, networks, mails, keys without their secrets, top-ups, refunds, movements of the balance, and calls. At most ${EXPORTS_A_DAY} a day.`,
          id: `Akun dan pengaturannya, sesi, jaringan, e-mail, kunci tanpa rahasianya, isi saldo, pengembalian dana, perubahan saldo, dan panggilan. Paling banyak ${EXPORTS_A_DAY} kali sehari.`,
        },
        body: Type.Object({ password: SomePassword }),
        media: "application/json",
      },
      async ({ request, session, body }) => {
        const confirmed = await accounts.confirm(session, body.password, whereabouts(request))
        if (confirmed instanceof Failure) return confirmed
        const { accountId } = session
        const waitS = await allowances.take({ name: `export ${accountId}`, most: EXPORTS_A_DAY, seconds: DAY_S })
        if (waitS !== undefined) return new Failure("rate_limit.export", { retryAfterS: Math.max(1, Math.ceil(waitS)) })
        return new Response(streamed(personalExport(accountId)), {
          headers: {
            "content-type": "application/json",
            "content-disposition": 'attachment; filename="loket-account.json"',
            "cache-control": "no-store",
          },
        })
      },
    ),
  )

/** Reads on only when the client has taken what there is, and stops when it goes away. */
function streamed(pieces: AsyncGenerator<string>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await pieces.next()
      if (done === true) controller.close()
      else controller.enqueue(encoder.encode(value))
    },
    async cancel() {
      await pieces.return(undefined)
    },
  })
}
