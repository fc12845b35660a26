/** What the playground has beside the conversation: how a model answers, images, the history, and the code. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { join } from "node:path"
import { type BrowserWorld, eventually, everyLook, openBrowser, type Visit } from "./harness.ts"

let world: BrowserWorld

beforeAll(async () => {
  world = await openBrowser()
  const { gateway } = world
  const answer = "text=Dua%20ekor%20kucing%20di%20atas%20meja."
  await gateway.model({
    format: "chat",
    model: "melihat",
    display_name: "Melihat",
    supports_vision: true,
    script: answer,
  })
  await gateway.model({ format: "chat", model: "buta", display_name: "Buta", script: answer })
})
afterAll(() => world[Symbol.asyncDispose]())

async function begin(visit: Visit, model: string) {
  await visit.open(`/playground?model=${model}`)
  await visit.page.getByRole("button", { name: /^(Make a trial key|Buat kunci percobaan)$/ }).click()
  await message(visit).waitFor()
}

const message = (visit: Visit) => visit.page.getByRole("textbox", { name: /^(Message|Pesan)$/ })
const composer = (visit: Visit) => visit.page.locator("form.composer")

async function say(visit: Visit, words: string) {
  await message(visit).fill(words)
  await visit.page.getByRole("button", { name: /^(Send|Kirim)$/ }).click()
}

const lastCall = (model: string) => world.gateway.simulator.calls.findLast((call) => call.model.startsWith(model))

/** A picture as a file, made by the browser itself. */
const picture = (visit: Visit, width: number, height: number, name: string) =>
  visit.page
    .evaluate(
      async ([wide, high]) => {
        const canvas = new OffscreenCanvas(wide ?? 1, high ?? 1)
        const context = canvas.getContext("2d")
        if (context === null) throw new Error("no canvas")
        for (let stripe = 0; stripe < 8; stripe++) {
          context.fillStyle = `hsl(${stripe * 45} 60% 60%)`
          context.fillRect((stripe * canvas.width) / 8, 0, canvas.width / 8, canvas.height)
        }
        return [...new Uint8Array(await (await canvas.convertToBlob({ type: "image/png" })).arrayBuffer())]
      },
      [width, height],
    )
    .then((bytes) => ({ name, mimeType: "image/png", buffer: Buffer.from(bytes) }))

const files = (visit: Visit) => visit.page.locator("input[type=file]")
const attached = (visit: Visit) => composer(visit).getByRole("img")

test.each(everyLook)("history, code and images are accessible and fit: %o", async (look) => {
  await using visit = await world.visit({ ...look, person: await world.gateway.person(100_000) })
  const { page } = visit
  await begin(visit, "melihat")
  await files(visit).setInputFiles([await picture(visit, 640, 400, "a.png"), await picture(visit, 300, 300, "b.png")])
  await eventually(async () => expect(await attached(visit).count()).toBe(2))
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
  await say(visit, look.language === "id" ? "Apa yang ada di gambar ini?" : "What is in these pictures?")
  await page.getByText(/^(1 call|1 panggilan)$/).waitFor()
  await visit.screenshot("playground-images")
  await page.getByRole("button", { name: /^(Get the code|Lihat kode)$/ }).click()
  await visit.expectAccessible()
  await visit.screenshot("playground-code")
  await visit.expectNoSidewaysScroll()
  await page.getByRole("button", { name: /^(Close|Tutup)$/ }).click()
  await page.getByRole("button", { name: /^(History|Riwayat)$/ }).click()
  await page.getByRole("button", { name: /^(What is in|Apa yang ada)/ }).waitFor()
  await visit.expectAccessible()
  await visit.screenshot("playground-history")
  await page.setViewportSize({ width: 320, height: 640 })
  await visit.expectNoSidewaysScroll()
})

test("temperature and top p are sent as they are written in either language, and left out when they are not", async () => {
  await using visit = await world.visit({ person: await world.gateway.person(100_000) })
  const { page } = visit
  await begin(visit, "buta")
  await say(visit, "Hello")
  await page.getByText("1 call").waitFor()
  expect(lastCall("buta")?.body).not.toHaveProperty("temperature")
  expect(lastCall("buta")?.body).not.toHaveProperty("top_p")
  const temperature = page.getByRole("textbox", { name: "Temperature" })
  for (const wrong of ["2.01", "-1", "warm", "0.123"]) {
    await temperature.fill(wrong)
    await page.getByText("Enter a number from 0 to 2 with at most two decimals.", { exact: true }).waitFor()
  }
  await say(visit, "Not sent")
  expect(await message(visit).inputValue()).toBe("Not sent")
  await temperature.fill("2")
  await page.getByRole("textbox", { name: "Top p" }).fill("0,25")
  await page.getByRole("button", { name: "Send", exact: true }).click()
  await page.getByText("2 calls").waitFor()
  expect(lastCall("buta")?.body).toMatchObject({ temperature: 2, top_p: 0.25 })
})

test("a large picture is made smaller in the browser, and goes along with what is asked later", async () => {
  await using visit = await world.visit({ person: await world.gateway.person(100_000) })
  const { page } = visit
  await begin(visit, "melihat")
  await files(visit).setInputFiles([await picture(visit, 4_000, 1_000, "wide.png")])
  await eventually(async () => expect(await attached(visit).count()).toBe(1))
  const size = await attached(visit).evaluate((image) => {
    const { naturalWidth, naturalHeight } = image as HTMLImageElement
    return [naturalWidth, naturalHeight]
  })
  expect(size).toEqual([1_568, 392])
  await say(visit, "What is it?")
  await page.getByText("1 call").waitFor()
  await say(visit, "And now?")
  await page.getByText("2 calls").waitFor()
  const image = { type: "image_url", image_url: { url: expect.stringMatching(/^data:image\/jpeg;base64,/) } }
  expect(lastCall("melihat")?.body?.["messages"]).toMatchObject([
    { role: "user", content: [{ type: "text", text: "What is it?" }, image] },
    { role: "assistant" },
    { role: "user", content: "And now?" },
  ])
})

test("four images are attached at the most, each can be removed, and what is no image is refused", async () => {
  await using visit = await world.visit({ person: await world.gateway.person(100_000) })
  const { page } = visit
  await begin(visit, "melihat")
  const five = await Promise.all([1, 2, 3, 4, 5].map((each) => picture(visit, each * 10, 10, `${each}.png`)))
  await files(visit).setInputFiles(five)
  await page.getByText("At most 4 images here.").waitFor()
  expect(await attached(visit).count()).toBe(4)
  await page.getByRole("button", { name: "Remove image 2" }).click()
  expect(await attached(visit).count()).toBe(3)
  await files(visit).setInputFiles([{ name: "a.png", mimeType: "image/png", buffer: Buffer.from("<svg>") }])
  await page.getByText("Only PNG, JPEG, WebP or GIF images").waitFor()
  await files(visit).setInputFiles([
    { name: "a.svg", mimeType: "image/svg+xml", buffer: Buffer.from("<svg xmlns='http://www.w3.org/2000/svg'/>") },
  ])
  expect(await attached(visit).count()).toBe(3)
})

/** A picture that is pasted or dropped. Resolves with whether the page took it. */
const give = (visit: Visit, how: "paste" | "drop", text?: string) =>
  message(visit).evaluate(
    async (field, [type, words]) => {
      const data = new DataTransfer()
      const canvas = new OffscreenCanvas(20, 20)
      canvas.getContext("2d")
      const blob = await canvas.convertToBlob({ type: "image/png" })
      data.items.add(new File([blob], "x.png", { type: "image/png" }))
      if (words !== undefined) data.items.add(words, "text/plain")
      const init = { bubbles: true, cancelable: true }
      return !field.dispatchEvent(
        type === "paste"
          ? new ClipboardEvent("paste", { ...init, clipboardData: data })
          : new DragEvent("drop", { ...init, dataTransfer: data }),
      )
    },
    [how, text] as const,
  )

test("an image can be pasted and dropped, text that comes with a picture stays text, and a blind model takes none", async () => {
  await using visit = await world.visit({ person: await world.gateway.person(100_000) })
  const { page } = visit
  await begin(visit, "melihat")
  await give(visit, "paste")
  await give(visit, "drop")
  await eventually(async () => expect(await attached(visit).count()).toBe(2))
  expect(await give(visit, "paste", "words")).toBe(false)
  expect(await attached(visit).count()).toBe(2)
  // What is attached does not go to a model that cannot see it.
  await page.getByLabel("Model").selectOption("buta")
  await page.getByText(/^This model takes no images\. Choose another/).waitFor()
  const before = world.gateway.simulator.calls.length
  await say(visit, "Look")
  expect(world.gateway.simulator.calls.length).toBe(before)
  await visit.page.getByRole("button", { name: "Remove image 1" }).click()
  await visit.page.getByRole("button", { name: "Remove image 1" }).click()
  await give(visit, "paste")
  await page.getByText("This model takes no images.", { exact: true }).waitFor()
  expect(await files(visit).count()).toBe(0)
})

const kept = (visit: Visit) =>
  visit.page.evaluate(
    () =>
      new Promise<number>((resolve, reject) => {
        const opening = indexedDB.open("loket-playground", 1)
        opening.addEventListener("error", () => reject(new Error("no database")))
        opening.addEventListener("success", () => {
          const count = opening.result.transaction("conversations").objectStore("conversations").count()
          count.addEventListener("success", () => {
            opening.result.close()
            resolve(count.result)
          })
        })
      }),
  )

test("a conversation is kept in the browser alone, opened again, gone on from and deleted", async () => {
  await using visit = await world.visit({ person: await world.gateway.person(100_000) })
  const { page } = visit
  const sent: string[] = []
  page.on("request", (request) => sent.push(`${request.url()} ${request.postData() ?? ""}`))
  await begin(visit, "buta")
  await say(visit, "A secret plan")
  await page.getByText("1 call").waitFor()
  await page.getByRole("button", { name: "New conversation" }).click()
  await say(visit, "Another one")
  await eventually(async () => expect(await kept(visit)).toBe(2))
  await begin(visit, "buta")
  await page.getByRole("button", { name: "History" }).click()
  await page.getByRole("button", { name: /^A secret plan/ }).click()
  await page.getByText("Dua ekor kucing").waitFor()
  await say(visit, "Go on")
  await eventually(async () =>
    expect(lastCall("buta")?.body?.["messages"]).toMatchObject([
      { content: "A secret plan" },
      { role: "assistant" },
      { content: "Go on" },
    ]),
  )
  await page.getByText("2 calls").waitFor()
  const elsewhere = sent.filter((request) => request.includes("secret plan") && !request.includes("/v1/chat/"))
  expect(elsewhere).toEqual([])
  await page.getByRole("button", { name: "History" }).click()
  // What was gone on from is the same conversation.
  await page.getByRole("button", { name: /^Another one/ }).waitFor()
  expect(await page.locator(".playground-history li").count()).toBe(2)
  await page.getByRole("button", { name: "Delete conversation Another one" }).click()
  await eventually(async () => expect(await page.locator(".playground-history li").count()).toBe(1))
  await page.getByRole("button", { name: "Delete all" }).click()
  await page.getByText("There are no conversations yet.").waitFor()
})

test("thirty conversations are kept, the latest ones", async () => {
  await using visit = await world.visit({ person: await world.gateway.person(100_000) })
  const { page } = visit
  await begin(visit, "buta")
  await say(visit, "The first one")
  await page.getByText("1 call").waitFor()
  await eventually(async () => expect(await kept(visit)).toBe(1))
  // Older ones of the same owner.
  await page.evaluate(
    () =>
      new Promise<void>((resolve) => {
        const opening = indexedDB.open("loket-playground", 1)
        opening.addEventListener("success", () => {
          const transaction = opening.result.transaction("conversations", "readwrite")
          const store = transaction.objectStore("conversations")
          const all = store.getAll()
          all.addEventListener("success", () => {
            const [one] = all.result as [{ at: number }]
            for (let n = 1; n <= 29; n++) store.put({ ...one, id: `old-${n}`, at: one.at - n })
          })
          transaction.addEventListener("complete", () => {
            opening.result.close()
            resolve()
          })
        })
      }),
  )
  expect(await kept(visit)).toBe(30)
  await page.getByRole("button", { name: "New conversation" }).click()
  await say(visit, "The last one")
  await page.getByText("1 call").waitFor()
  await page.getByRole("button", { name: "History" }).click()
  await page.getByRole("button", { name: /^The last one/ }).waitFor()
  await eventually(async () => expect(await kept(visit)).toBe(30))
})

test("signing out deletes what was kept, and another person sees nothing of it", async () => {
  const first = await world.gateway.person(100_000)
  await using visit = await world.visit({ person: first })
  const { page } = visit
  await begin(visit, "buta")
  await say(visit, "A secret plan")
  await page.getByText("1 call").waitFor()
  await eventually(async () => expect(await kept(visit)).toBe(1))
  // The session ends without a sign-out, and somebody else begins one.
  const second = await world.gateway.person(100_000)
  // Prepares the other person's language and agreement.
  await using _ = await world.visit({ person: second })
  await page.context().addCookies([{ name: "session", value: second.token, url: world.gateway.url, httpOnly: true }])
  await visit.open("/playground")
  await page.getByRole("button", { name: "History" }).click()
  await page.getByText("There are no conversations yet.").waitFor()
  await page.getByRole("button", { name: "Close" }).click()
  await page.getByRole("button", { name: /^Account: / }).click()
  await page.getByRole("button", { name: "Sign out" }).click()
  await page.getByRole("heading", { name: "Sign in" }).waitFor()
  expect(await kept(visit)).toBe(0)
})

test("the code that is shown makes the same request, whatever is written in it", async () => {
  const asker = await world.gateway.person(100_000)
  const { key } = await world.gateway.key(asker)
  await using visit = await world.visit({ person: asker })
  const { page } = visit
  await begin(visit, "buta")
  const words = `It's "quoted" $HOME \`id\` \\ {x} é 😀\nand a line`
  await page.getByRole("textbox", { name: "System prompt" }).fill("Don't.")
  await page.getByRole("textbox", { name: "Temperature" }).fill("0.5")
  await message(visit).fill(words)
  await page.getByRole("button", { name: "Get the code" }).click()
  const shown = async (tab: string) => {
    await page.getByRole("tab", { name: tab }).click()
    // The panel before it may still be seen for a moment.
    return await page.getByRole("tabpanel", { name: tab, exact: true }).locator("pre:visible").innerText()
  }
  const run = async (command: string[], cwd?: string) => {
    const child = Bun.spawn(command, {
      env: { ...process.env, LOKET_API_KEY: key },
      ...(cwd !== undefined && { cwd }),
      stderr: "pipe",
    })
    return `${await new Response(child.stdout).text()}${await new Response(child.stderr).text()}`
  }
  const expectSame = () =>
    expect(lastCall("buta")?.body).toMatchObject({
      messages: [
        { role: "system", content: "Don't." },
        { role: "user", content: words },
      ],
      temperature: 0.5,
      stream: true,
    })
  const before = world.gateway.simulator.calls.length
  expect(await run(["bash", "-c", await shown("curl")])).toContain("kucing")
  expectSame()
  const folder = await mkdtemp(join(import.meta.dir, ".code-"))
  try {
    await Bun.write(join(folder, "code.ts"), await shown("TypeScript"))
    expect(await run([process.execPath, "code.ts"], folder)).toContain("Dua ekor kucing di atas meja.")
    expectSame()
    const python = await shown("Python")
    expect(python).toContain('os.environ["LOKET_API_KEY"]')
    if (Bun.which("python3") !== null) {
      // The call's arguments, as Python reads them, without the SDK.
      const read = `import ast,json,sys
call=next(n for n in ast.walk(ast.parse(sys.stdin.read())) if isinstance(n,ast.Call) and getattr(n.func,"attr","")=="create")
print(json.dumps({k.arg:ast.literal_eval(k.value) for k in call.keywords}))`
      const child = Bun.spawn(["python3", "-c", read], { stdin: new Blob([python]) })
      const { messages, temperature, stream } = (await new Response(child.stdout).json()) as Record<string, unknown>
      expect({ messages, temperature, stream }).toEqual({
        messages: [
          { role: "system", content: "Don't." },
          { role: "user", content: words },
        ],
        temperature: 0.5,
        stream: true,
      })
    }
  } finally {
    await rm(folder, { recursive: true })
  }
  expect(world.gateway.simulator.calls.length).toBe(before + 2)
  expect(await page.content()).not.toContain(key)
})
