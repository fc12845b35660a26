/**
 * What reaches the gateway from payers and payment providers. `/webhooks/payments/{provider}`: a provider's notifications
 * (decisions §10). `/simulated-pay/{top_up_id}`: a page that pays a simulated top-up by pressing a button, and takes it
 * back, so that all can be tried from end to end.
 */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { nanoid } from "nanoid"
import { Failure } from "../../failure/failure.ts"
import { isTopUpId, type TopUps, total } from "../../payments/top-ups.ts"
import { rupiahText } from "../../../actors/money/micro.ts"
import { type PaymentProvider, signSimulated, simulatedProvider, wholeRupiah } from "../../payments/provider.ts"
import type { TopUp, TopUpStore } from "../../store/top-ups.ts"
import { documented, open, readBytes } from "../route.ts"
import { anyObject, oneOf } from "../shapes.ts"

export interface WebhooksDeps {
  readonly topUps: TopUps
  /** All whose notifications are read, also those that make no new charges. */
  readonly providers: readonly PaymentProvider[]
}

/** Answers 200 only when the credit is committed: after any other answer, a provider notifies again. */
export const webhooksController = ({ topUps, providers }: WebhooksDeps) =>
  new Elysia({ name: "dashboard/webhooks" }).post(
    "/webhooks/payments/:provider",
    async ({ request, params }) => {
      const provider = providers.find(({ id }) => id === params.provider)
      if (provider === undefined) return new Failure("resource.not_found")
      const body = await readBytes(request)
      if (body instanceof Failure) return body
      const notice = await provider.readNotification(body, request.headers)
      if (notice instanceof Failure) return notice
      const settled = await topUps.settle(provider.id, notice)
      return settled instanceof Failure ? settled : { received: true }
    },
    documented("none", {
      tag: "Top-ups",
      summary: {
        en: "A payment provider's notification, proved by its signature",
        id: "Pemberitahuan dari penyedia pembayaran, dibuktikan dengan tanda tangannya",
      },
      body: anyObject,
      answer: Type.Object({ received: Type.Literal(true) }),
    }),
  )

export interface SimulatedPayDeps {
  readonly topUps: TopUps
  readonly store: Pick<TopUpStore, "find">
  readonly secret: string | undefined
  /** Whether top-ups are paid through the simulated provider at all. */
  readonly charges: boolean
}

/**
 * The button notifies as the provider would, with its signature. There is no such page without the simulated provider and
 * its secret, which `dev` makes up and production leaves unset.
 */
export const simulatedPayController = ({ topUps, store, secret, charges }: SimulatedPayDeps) => {
  const controller = new Elysia({ name: "dashboard/simulated-pay" })
  if (!charges || secret === undefined || secret === "") return controller
  const provider = simulatedProvider({ secret })
  const find = async (id: string): Promise<TopUp | Failure> => {
    const topUp = isTopUpId(id) ? await store.find(id) : undefined
    return topUp?.provider === provider.id ? topUp : new Failure("resource.not_found")
  }
  const shown = async (id: string) => {
    const topUp = await find(id)
    return topUp instanceof Failure ? topUp : page(topUp)
  }
  return controller
    .get(
      ...open(
        "/simulated-pay/:id",
        {
          tag: "Top-ups",
          summary: { en: "A page that pays a simulated top-up", id: "Halaman untuk membayar isi saldo simulasi" },
          media: "text/html",
        },
        ({ params }) => shown(params.id),
      ),
    )
    .post(
      ...open(
        "/simulated-pay/:id",
        {
          tag: "Top-ups",
          summary: {
            en: "Pay a simulated top-up, or take it back",
            id: "Bayar isi saldo simulasi, atau tarik kembali pembayarannya",
          },
          query: Type.Object({ play: Type.Optional(oneOf(["refund", "chargeback"])) }),
          media: "text/html",
        },
        async ({ params, query: { play } }) => {
          const topUp = await find(params.id)
          if (topUp instanceof Failure) return topUp
          const paid = { top_up_id: topUp.id, amount_rp: Number(wholeRupiah(total(topUp.breakdown))) }
          const { body, headers } = signSimulated(
            secret,
            play === undefined
              ? { ...paid, status: "paid" }
              : { ...paid, status: play, back_rp: backOf(paid.amount_rp, play), reversal_id: nanoid() },
          )
          const notice = await provider.readNotification(body, headers)
          if (notice instanceof Failure) return notice
          const settled = await topUps.settle(provider.id, notice)
          return settled instanceof Failure ? settled : await shown(params.id)
        },
      ),
    )
}

/** A refund is of a half, so that there is another one; a bank takes all. */
const backOf = (amountRp: number, play: "refund" | "chargeback"): number =>
  play === "refund" ? Math.ceil(amountRp / 2) : amountRp

const page = (topUp: TopUp): Response => {
  const amount = rupiahText(total(topUp.breakdown), "id")
  const paid = topUp.status === "paid"
  const body = paid
    ? `<p>${amount} sudah dibayar / has been paid.</p>
<form method="post" action="?play=refund"><button>Kembalikan setengah / Refund a half</button></form><br>
<form method="post" action="?play=chargeback"><button>Bank menarik kembali / Chargeback</button></form>`
    : `<p>${amount}</p><form method="post"><button>Bayar / Pay</button></form>`
  const back = `<p><a href="/dashboard/wallet/${topUp.id}">Kembali ke dompet / Back to the wallet</a></p>`
  return new Response(
    `<!doctype html><html lang="id"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Simulasi pembayaran / Simulated payment</title>
<style>:root{color-scheme:light dark}body{font:18px system-ui;margin:15vh auto;max-width:22em;text-align:center}button{font:inherit;padding:.6em 2em}</style>
<h1>Loket</h1><p>Simulasi: tidak ada uang yang berpindah.<br>Simulated: no money moves.</p>${body}${back}</html>`,
    {
      headers: {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'",
        "Cache-Control": "no-store",
      },
    },
  )
}
