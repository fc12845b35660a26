import { expect, test } from "bun:test"
import { loaded } from "./loaded.ts"

const { deviceOf } = await loaded(() => import("../../src/dashboard/api/browser.ts"))

const SAFARI = "AppleWebKit/605.1.15 (KHTML, like Gecko)"
const CHROME = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0"

test.each([
  [`Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${CHROME} Safari/537.36`, "Chrome", "Windows"],
  [`Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${CHROME} Safari/537.36 Edg/143.0.0.0`, "Edge", "Windows"],
  [`Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) ${SAFARI} Version/19.1 Safari/605.1.15`, "Safari", "macOS"],
  [
    `Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X) ${SAFARI} Version/19.1 Mobile/15E148 Safari/604.1`,
    "Safari",
    "iPhone",
  ],
  [
    `Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X) ${SAFARI} CriOS/143.0 Mobile/15E148 Safari/604.1`,
    "Chrome",
    "iPhone",
  ],
  [`Mozilla/5.0 (Linux; Android 16; K) ${CHROME} Mobile Safari/537.36`, "Chrome", "Android"],
  [
    `Mozilla/5.0 (Linux; Android 16; SM-S936B) ${CHROME} SamsungBrowser/29.0 Mobile Safari/537.36`,
    "Samsung Internet",
    "Android",
  ],
  ["Mozilla/5.0 (X11; Linux x86_64; rv:146.0) Gecko/20100101 Firefox/146.0", "Firefox", "Linux"],
  ["curl/8.17.0", "curl", undefined],
  ["", undefined, undefined],
])("%p is %p on %p", (userAgent, browser, system) => {
  expect(deviceOf(userAgent)).toEqual({ browser, system })
})
