/**
 * A whole gateway with a browser before it. A test opens visits: browser contexts of their own, with a size, a
 * language and a theme. Console errors, violations of the page's policy and exceptions fail the test.
 */
import { expect } from "bun:test"
import { existsSync } from "node:fs"
import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import type axe from "axe-core"
import type { RunOptions } from "axe-core"
import { type Browser, type BrowserContext, chromium, type Locator, type Page } from "playwright-core"
import { type GatewayOptions, type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"

/** Chromium without the parts that only a window needs takes half the processor's time; the whole one where that is not to be had. */
const CHROMIUM = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"].find((path) => existsSync(path))

/** As it is for browsers: `axe.source` is more than twice as long, and reading it takes a page longer than being looked at. */
const AXE = await Bun.file(Bun.resolveSync("axe-core/axe.min.js", import.meta.dir)).text()

const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
]

const SIZES = {
  desktop: { width: 1280, height: 800 },
  phone: { width: 390, height: 844 },
  /** The narrowest that a page must fit. */
  narrow: { width: 320, height: 640 },
} as const
const IMAGES = join(import.meta.dir, "../../docs/img")
/** Shorter than the tests' own timeout, so that the error names what was waited for. */
const PATIENCE_MS = 60_000
/** What a browser logs of an answer with a 4xx status: the tests of the API judge those. */
const EXPECTED_FAILURE = /^Failed to load resource: the server responded with a status of 4\d\d/

export interface VisitOptions {
  readonly size?: keyof typeof SIZES
  readonly language?: "id" | "en"
  readonly theme?: "light" | "dark"
  /** Of the browser. */
  readonly timeZone?: string
  /** The browser runs scripts unless it is said. */
  readonly script?: boolean
  /** Signed in as this person, who has agreed to the terms unless it is said; a visitor otherwise. */
  readonly person?: Person
  readonly agreed?: boolean
}

type Look = Required<Pick<VisitOptions, "size" | "language" | "theme">>

const allLooks: readonly Look[] = (["desktop", "phone"] as const).flatMap((size) =>
  (["id", "en"] as const).flatMap((language) =>
    (["light", "dark"] as const).map((theme) => ({ size, language, theme })),
  ),
)

/** Half of all looks, in which each pair of size, language and theme occurs; all of them when screenshots are taken. */
export const everyLook: readonly Look[] =
  process.env["LOKET_SCREENSHOTS"] === "1"
    ? allLooks
    : allLooks.filter(
        ({ size, language, theme }) =>
          [size === "phone", language === "en", theme === "dark"].filter(Boolean).length % 2 === 0,
      )

/**
 * Waits until what is claimed holds: a page follows a press, an answer or an event a moment later. It gives up as a visit
 * does, with the claim's own words.
 */
export async function eventually(claim: () => Promise<unknown>): Promise<void> {
  const until = performance.now() + PATIENCE_MS
  for (;;) {
    try {
      await claim()
      return
    } catch (error) {
      if (performance.now() > until) throw error
    }
    await Bun.sleep(20)
  }
}

export interface BrowserWorld extends AsyncDisposable {
  readonly gateway: TestGateway
  visit(options?: VisitOptions): Promise<Visit>
}

export async function openBrowser(options: GatewayOptions = {}): Promise<BrowserWorld> {
  if (CHROMIUM === undefined) throw new Error("there is no Chromium: `apt-get install chromium-headless-shell`")
  const gateway = await startTestGateway(options)
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS })
  return {
    gateway,
    visit: (visitOptions = {}) => Visit.begin(gateway, browser, visitOptions),
    async [Symbol.asyncDispose]() {
      await browser.close()
      await gateway[Symbol.asyncDispose]()
    },
  }
}

/** Runs in the page, before it: what moved, how far, and from where to where. */
function noteShifts(): void {
  const shifts: object[] = []
  Object.assign(globalThis, { loketShifts: shifts })
  interface Shift extends PerformanceEntry {
    readonly value: number
    readonly hadRecentInput: boolean
    readonly sources: readonly { node: Node | null; previousRect: DOMRect; currentRect: DOMRect }[]
  }
  new PerformanceObserver((list) => {
    for (const { value, hadRecentInput, sources } of list.getEntries() as Shift[]) {
      if (hadRecentInput) continue
      const moved = sources.map(({ node, previousRect: from, currentRect: to }) => {
        const element = node instanceof Element ? node : node?.parentElement
        return `${element?.tagName} ${element?.className}: ${from.y} ${from.height} to ${to.y} ${to.height}`
      })
      shifts.push({ value, moved })
    }
  }).observe({ type: "layout-shift", buffered: true })
}

export class Visit implements AsyncDisposable {
  readonly page: Page
  readonly complaints: string[] = []
  readonly #gateway: TestGateway
  readonly #context: BrowserContext
  readonly #options: VisitOptions

  private constructor(gateway: TestGateway, context: BrowserContext, page: Page, options: VisitOptions) {
    this.#gateway = gateway
    this.#context = context
    this.#options = options
    this.page = page
    page.on("console", (message) => {
      if (message.type() === "error" && !EXPECTED_FAILURE.test(message.text())) this.complaints.push(message.text())
    })
    page.on("pageerror", (error) => this.complaints.push(String(error)))
  }

  static async begin(gateway: TestGateway, browser: Browser, options: VisitOptions): Promise<Visit> {
    const {
      size = "desktop",
      language = "en",
      theme = "light",
      timeZone = "Asia/Jakarta",
      script = true,
      person,
      agreed = true,
    } = options
    const context = await browser.newContext({
      viewport: SIZES[size],
      locale: language === "id" ? "id-ID" : "en-GB",
      timezoneId: timeZone,
      colorScheme: theme,
      hasTouch: size !== "desktop",
      isMobile: size !== "desktop",
      reducedMotion: "reduce",
      javaScriptEnabled: script,
    })
    context.setDefaultTimeout(PATIENCE_MS)
    await context.grantPermissions(["clipboard-read", "clipboard-write"])
    if (person !== undefined) {
      await gateway.dashboard(person, "/account", { method: "PATCH", body: JSON.stringify({ language }) })
      if (agreed) {
        const { legal_version: version } = (await (await fetch(`${gateway.url}/about`)).json()) as {
          legal_version: string
        }
        await gateway.dashboard(person, "/account/agreement", { method: "POST", body: JSON.stringify({ version }) })
      }
      await context.addCookies([{ name: "session", value: person.token, url: gateway.url, httpOnly: true }])
    }
    await context.addInitScript(noteShifts)
    return new Visit(gateway, context, await context.newPage(), options)
  }

  /** Goes to a page of the dashboard, such as `/keys`, and waits until it stands. */
  async open(path: string): Promise<void> {
    await this.page.goto(`${this.#gateway.url}/dashboard${path === "/" ? "" : path}`)
    await this.settled()
  }

  /** Waits until nothing on the page says that it is still loading. */
  async settled(): Promise<void> {
    // Looked at within the page, at each frame: a locator is looked for twice a second.
    await this.page.waitForFunction(
      () =>
        document.querySelector("h1")?.checkVisibility() === true &&
        document.querySelector(".skeleton, [aria-busy=true]") === null &&
        document.fonts.status === "loaded",
    )
  }

  /** Axe finds nothing serious or critical. A failure names each finding and its elements. */
  async expectAccessible(): Promise<void> {
    // What has just arrived is lit up for a moment, in a colour on its way.
    await this.page.evaluate(async () => {
      const ending = document.getAnimations().filter(({ effect }) => effect?.getTiming().iterations !== Infinity)
      await Promise.allSettled(ending.map(({ finished }) => finished))
    })
    if (!(await this.page.evaluate(() => "axe" in globalThis))) await this.page.evaluate(AXE)
    const findings = await this.page.evaluate(async () => {
      interface Engine {
        run: typeof axe.run
        readonly _audit: { readonly rules: readonly { readonly id: string; readonly impact?: string }[] }
      }
      const engine = (globalThis as unknown as { axe: Engine }).axe
      // A rule's impact is that of all its findings. Those whose findings are passed over take nearly half of the time.
      const lesser = engine._audit.rules.filter(({ impact }) => impact === "minor" || impact === "moderate")
      const options: RunOptions = {
        // What passes is not gathered.
        resultTypes: ["violations"],
        rules: Object.fromEntries(lesser.map(({ id }) => [id, { enabled: false }])),
      }
      const { violations } = await engine.run(options)
      return violations
        .filter(({ impact }) => impact === "serious" || impact === "critical")
        .map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target.join(" ")).join(", ")}`)
    })
    expect(findings).toEqual([])
  }

  /** A key's row on the page of keys. */
  keyRow(name: string): Locator {
    return this.page.getByRole("row").filter({ has: this.page.getByRole("button", { name, exact: true }) })
  }

  /** What is known of a key, and can be done with it, below its row, which is opened where it is not. */
  async openKey(name: string): Promise<Locator> {
    const button = this.keyRow(name).getByRole("rowheader").getByRole("button", { name, exact: true })
    if ((await button.getAttribute("aria-expanded")) === "false") await button.click()
    return this.page.getByRole("region", { name, exact: true })
  }

  /**
   * How far what is on the page has moved by itself since it was opened: the sum of all layout shifts that follow no press
   * (https://web.dev/articles/cls), which is more than the worst window of them.
   */
  async expectSteady(): Promise<void> {
    const shifts = await this.page.evaluate(() => (globalThis as unknown as { loketShifts: object[] }).loketShifts)
    const sum = shifts.reduce((total, shift) => total + (shift as { value: number }).value, 0)
    expect(sum < 0.02 ? [] : shifts).toEqual([])
  }

  /** Nothing sticks out at the side, once charts have been drawn anew for the window's width. */
  async expectNoSidewaysScroll(): Promise<void> {
    await this.page
      .waitForFunction(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth, undefined, {
        timeout: 20_000,
      })
      .catch(() => undefined)
    const [content, window] = await this.page.evaluate(() => [
      document.documentElement.scrollWidth,
      document.documentElement.clientWidth,
    ])
    expect(content).toBeLessThanOrEqual(window ?? 0)
  }

  /** A picture for the documents, only when they are asked for (`LOKET_SCREENSHOTS=1`). */
  async screenshot(name: string): Promise<void> {
    if (process.env["LOKET_SCREENSHOTS"] !== "1") return
    const { size = "desktop", language = "en", theme = "light" } = this.#options
    await mkdir(IMAGES, { recursive: true })
    await this.page.screenshot({ path: join(IMAGES, `${name}-${size}-${language}-${theme}.png`) })
  }

  /** Ends the visit; it must have gone without a complaint. */
  async [Symbol.asyncDispose]() {
    await this.#context.close()
    expect(this.complaints).toEqual([])
  }
}
