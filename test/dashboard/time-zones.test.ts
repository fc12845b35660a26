import { expect, test } from "bun:test"
import { loaded } from "./loaded.ts"

const { timeZonesWith, zoneMatches } = await loaded(() => import("../../src/dashboard/api/browser.ts"))

const found = (query: string, language: "id" | "en") =>
  timeZonesWith("Asia/Jakarta").filter((zone) => zoneMatches(zone, query, language))

test("a zone is found by its city, its country's words, its abbreviation and its offset", () => {
  expect(found("jakarta", "en")).toEqual(["Asia/Jakarta"])
  expect(found("new york", "en")).toEqual(["America/New_York"])
  expect(found("WIB", "id")).toContain("Asia/Jakarta")
  expect(found("waktu indonesia tengah", "id")).toContain("Asia/Makassar")
  expect(found("gmt+9 tokyo", "en")).toEqual(["Asia/Tokyo"])
  expect(found("nowhere at all", "en")).toEqual([])
})

test("the account's own zone is always among them, once", () => {
  expect(timeZonesWith("Mars/Olympus")[0]).toBe("Mars/Olympus")
  const zones = timeZonesWith("UTC")
  expect(zones.filter((zone) => zone === "UTC")).toEqual(["UTC"])
})
