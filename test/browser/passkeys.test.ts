/** Passkeys as a person has them, with Chromium's own virtual device. At localhost, because an IP address has none. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { CDPSession } from "playwright-core"
import { type BrowserWorld, eventually, openBrowser, type Visit } from "./harness.ts"

const PASSWORD = "correct horse battery"
let world: BrowserWorld
beforeAll(async () => {
  world = await openBrowser()
}, 60_000)
afterAll(() => world[Symbol.asyncDispose]())

const at = (path: string) => `${world.gateway.url.replace("127.0.0.1", "localhost")}/dashboard${path}`
const go = async (visit: Visit, path: string) => {
  await visit.page.goto(at(path))
  await visit.settled()
}

async function person() {
  const { accountId } = await world.gateway.person()
  await world.gateway.sql`update accounts set email_unproved = false where id = ${accountId}`
  const [row] = await world.gateway.sql<{ email: string }[]>`select email from accounts where id = ${accountId}`
  return { accountId, email: row?.email ?? "" }
}

/** A device with a fingerprint sensor, which says yes unless it is told otherwise. */
async function device(visit: Visit) {
  const cdp = await visit.page.context().newCDPSession(visit.page)
  await cdp.send("WebAuthn.enable")
  const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      protocol: "ctap2",
      transport: "internal",
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  })
  return { cdp, authenticatorId }
}
const verifies = (cdp: CDPSession, authenticatorId: string, isUserVerified: boolean) =>
  cdp.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified })

async function signIn({ page }: Visit, email: string) {
  await page.getByLabel("Alamat e-mail").fill(email)
  await page.getByLabel("Kata sandi").fill(PASSWORD)
  await page.getByRole("button", { name: "Masuk", exact: true }).click()
}

test.each([
  { size: "desktop", language: "id", theme: "light" },
  { size: "phone", language: "id", theme: "dark" },
] as const)("a passkey is added, signs in alone and as the second step, is renamed and removed: %o", async (look) => {
  const { accountId, email } = await person()
  await using visit = await world.visit(look)
  const { page } = visit
  const { cdp, authenticatorId } = await device(visit)
  await go(visit, "/sign-in?next=%2Fsettings")
  const loaded = () => page.evaluate(() => performance.getEntriesByType("resource").map(({ name }) => name))
  const before = await loaded()
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await signIn(visit, email)
  await page.getByRole("heading", { name: "Pengaturan", level: 1 }).waitFor()
  await page.getByRole("button", { name: "Tambah passkey" }).click()
  const dialog = page.getByRole("dialog")
  await dialog.getByLabel("Nama passkey").fill("Ponsel Ana")
  await dialog.getByLabel("Kata sandi akun").fill("not the password")
  await dialog.getByRole("button", { name: "Lanjut" }).click()
  await dialog.getByText("Kata sandi ini salah").waitFor()
  await visit.screenshot("passkey-add")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  // The finger is not the owner's.
  await verifies(cdp, authenticatorId, false)
  await dialog.getByLabel("Kata sandi akun").fill(PASSWORD)
  await dialog.getByRole("button", { name: "Lanjut" }).click()
  await dialog.getByText("Passkey tidak jadi dipakai").waitFor()
  await verifies(cdp, authenticatorId, true)
  await dialog.getByRole("button", { name: "Lanjut" }).click()
  await page.getByRole("heading", { name: "Kode pemulihan" }).waitFor()
  await eventually(async () => expect(await page.locator(".factor-codes code").count()).toBe(10))
  await page.getByRole("button", { name: "Sudah saya simpan" }).click()
  await page.getByText("Ponsel Ana").waitFor()
  await page.getByText("Passkey Anda sudah menjadi langkah kedua").scrollIntoViewIfNeeded()
  await visit.screenshot("passkeys")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  // What talks to the device came with the first use of it.
  expect((await loaded()).filter((name) => name.endsWith(".js")).length).toBeGreaterThan(
    before.filter((name) => name.endsWith(".js")).length,
  )

  await page.context().clearCookies()
  await go(visit, "/sign-in?next=%2Fsettings")
  await visit.screenshot("sign-in-passkey")
  await page.getByRole("button", { name: "Masuk dengan passkey" }).click()
  await page.getByRole("heading", { name: "Pengaturan", level: 1 }).waitFor()
  await page.getByText("terakhir dipakai").waitFor()

  await page.context().clearCookies()
  await go(visit, "/sign-in?next=%2Fsettings")
  await signIn(visit, email)
  await page.getByRole("heading", { name: "Verifikasi dua langkah" }).waitFor()
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await page.getByRole("button", { name: "Pakai passkey" }).click()
  await page.getByRole("heading", { name: "Pengaturan", level: 1 }).waitFor()

  await page.getByRole("button", { name: "Ganti nama Ponsel Ana" }).click()
  await page.getByRole("dialog").getByLabel("Nama passkey").fill("Laptop")
  await page.getByRole("dialog").getByRole("button", { name: "Simpan" }).click()
  await page.getByRole("button", { name: "Hapus Laptop" }).click()
  // There is no app from which a code could come.
  await page.getByRole("dialog").getByLabel("Kode pemulihan").waitFor()
  expect(await page.getByRole("dialog").getByText("dari aplikasi").count()).toBe(0)
  await page.getByRole("dialog").getByLabel("Kata sandi akun").fill(PASSWORD)
  await visit.expectAccessible()
  await page.getByRole("dialog").getByRole("button", { name: "Hapus passkey" }).click()
  await page.getByRole("button", { name: "Aktifkan verifikasi dua langkah" }).waitFor()
  const left = await world.gateway.sql`select from passkeys where account_id = ${accountId}`
  expect(left).toHaveLength(0)

  // The device still has it, and the account has not.
  await page.context().clearCookies()
  await go(visit, "/sign-in")
  await page.getByRole("button", { name: "Masuk dengan passkey" }).click()
  await page.getByText("Passkey ini tidak diterima").waitFor()
})

test("at another address the settings say where passkeys can be used, and the sign-in offers none", async () => {
  const someone = await world.gateway.person()
  await world.gateway.sql`update accounts set email_unproved = false where id = ${someone.accountId}`
  await using visit = await world.visit({ language: "en", person: someone })
  await visit.open("/settings")
  await visit.page.getByText(/can be used at http:\/\/localhost:\d+ alone/).waitFor()
  expect(await visit.page.getByRole("button", { name: "Add a passkey" }).isDisabled()).toBe(true)
  await using visitor = await world.visit({ language: "en" })
  await visitor.open("/sign-in")
  expect(await visitor.page.getByRole("button", { name: "Sign in with a passkey" }).count()).toBe(0)
})
