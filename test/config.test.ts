/** The configuration, read in this process (decisions §9). What the commands make of it is in test/processes/config.test.ts. */
import { describe, expect, test } from "bun:test"
import { pairsOf, readConfig } from "../src/config.ts"
import { covers } from "./contract/rows.ts"

const sender = "an address, or a name with one, as in Loket <no-reply@example.com>"
const smtp = "an address that begins with smtp:// or smtps://, with %XX for / ? and # in its user or password"
const publicAddress = "the address at which people reach the dashboard, such as https://loket.example, without a path"
const endpoint = "an address such as http://127.0.0.1:4318, without a user, a query and a fragment"

describe(covers("9.environment"), () => {
  const wrong: [name: string, found: string, allowed: string][] = [
    ["PORT", "65536", "a whole number from 0 to 65535"],
    ["PORT", "http", "a whole number from 0 to 65535"],
    ["PORT", "80.5", "a whole number from 0 to 65535"],
    ["PORT", " 80", "a whole number from 0 to 65535"],
    ["PORT", "-1", "a whole number from 0 to 65535"],
    ["REUSE_PORT", "1", "true, false"],
    ["WORKERS", "0", "auto, or a whole number from 1 to 256"],
    ["WORKERS", "257", "auto, or a whole number from 1 to 256"],
    ["WORKERS", "02", "auto, or a whole number from 1 to 256"],
    ["WORKERS", "all", "auto, or a whole number from 1 to 256"],
    ["LOG_LEVEL", "loud", "debug, info, warn, error"],
    ["MAX_BODY_BYTES", "0", "a whole number from 1 to 2147483648"],
    ["MAX_BODY_BYTES", "32MiB", "a whole number from 1 to 2147483648"],
    ["MAX_CONCURRENCY", "0", "a whole number from 1 to 60000"],
    ["HEARTBEAT_MS", "0x10", "a whole number from 1 to 86400000"],
    ["PAYMENT_PROVIDER", "cash", "simulated, midtrans"],
    ["CLIENT_ADDRESS_HEADER", "X-Forwarded-For: *", "the name of a header, such as X-Forwarded-For"],
    ["METRICS_PORT", "99999999999999999999", "a whole number from 0 to 65535"],
    ["SUPPORT_CONTACT", "javascript:alert(1)", "an e-mail address, or an address that begins with https://"],
    ["SMTP_URL", "mail.example:25", smtp],
    ["MAIL_FROM", "Loket", sender],
    ["MAIL_FROM", "Loket <no-reply>", sender],
    ["MAIL_FROM", "Loket no-reply@example.com", sender],
    ["MAIL_FROM", "Loket <a@b.id>, Other <c@d.id>", sender],
    ["MAIL_FROM", "Loket <a@b.id>\nBcc: c@d.id", sender],
    ["SMTP_URL", "smtp://mail.example:65536", smtp],
    ["PUBLIC_URL", "https://loket.example:65536", publicAddress],
    ["SEARCH_URL", "http://", "an address that begins with http:// or https://"],
    ["MIDTRANS_BASE_URL", "https://", "an address that begins with http:// or https://"],
    [
      "EXCHANGE_RATES_FROM",
      "https://rates.example:65536/latest",
      "an address that begins with https://, or the absolute path of a file",
    ],
    [
      "REDIS_URL",
      "redis://127.0.0.1:65536",
      "an address such as redis://user:password@host:6379, or rediss:// with TLS",
    ],
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", endpoint],
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "http://[::1", endpoint],
    ["OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf, http/json"],
    ["OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "none, gzip"],
    ["OTEL_TRACES_SAMPLER_ARG", "1.1", "a number from 0 to 1"],
    ["OTEL_TRACES_SAMPLER_ARG", "-0.1", "a number from 0 to 1"],
    ["OTEL_TRACES_SAMPLER_ARG", "1e-3", "a number from 0 to 1"],
    [
      "OTEL_TRACES_SAMPLER",
      "jaeger_remote",
      "always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, parentbased_traceidratio",
    ],
    ["OTEL_PROPAGATORS", "b3", "tracecontext, none"],
    ["OTEL_SDK_DISABLED", "yes", "true, false"],
    ["DATABASE_URL", "mysql://db", "an address that begins with postgres:// or postgresql://"],
  ]
  test.each(wrong)("%s=%s is told with what is allowed", (name, found, allowed) => {
    expect(readConfig({ [name]: found })).toEqual([`${name} is ${JSON.stringify(found)}; allowed is ${allowed}`])
  })
  test("a mail server without a sender is told", () => {
    const problems = readConfig({ SMTP_URL: "smtp://mail.example" })
    expect(problems).toEqual([expect.stringContaining("MAIL_FROM is unset; SMTP_URL needs it")])
    for (const MAIL_FROM of ["a@example.com", "Loket <a@example.com>", "<a@localhost>", '"Loket, Jakarta" <a+b@b.id>'])
      expect(readConfig({ SMTP_URL: "smtp://mail.example", MAIL_FROM })).toMatchObject({ MAIL_FROM })
  })
  test("several workers need a database server", () => {
    expect(readConfig({ WORKERS: "2" })).toEqual([
      "WORKERS is over 1 and DATABASE_URL is unset; the embedded database admits one process",
    ])
    const DATABASE_URL = "postgres://db/loket"
    for (const WORKERS of ["2", "256", "auto"]) expect(readConfig({ WORKERS, DATABASE_URL })).toMatchObject({ WORKERS })
  })
  test("a password in an address is not told", () => {
    const problems = readConfig({ DATABASE_URL: "mysql://somebody:secret@db/loket" })
    expect(problems).toEqual([
      'DATABASE_URL is "mysql://***@db/loket"; allowed is an address that begins with postgres:// or postgresql://',
    ])
  })
  test("a password that ends the host of a mail server's address early is not told, and no other host is taken for it", () => {
    for (const password of ["sec/ret", "sec?ret", "sec#ret", "12/sec", "12?sec", "12#sec"]) {
      const problems = readConfig({ SMTP_URL: `smtp://somebody:${password}@mail.example:587`, MAIL_FROM: "a@b.id" })
      expect(problems).toEqual([`SMTP_URL is "smtp://***@mail.example:587"; allowed is ${smtp}`])
    }
    for (const SMTP_URL of [
      "smtp://no-reply@b.id:p@ss%2F@mail.example:587",
      "smtps://mail.example/?tls.rejectUnauthorized=false",
    ])
      expect(readConfig({ SMTP_URL, MAIL_FROM: "a@b.id" })).toMatchObject({ SMTP_URL })
  })
  test("what may be secret in an address or in headers is not told, however it is written", () => {
    for (const [name, found] of [
      ["DATABASE_URL", "mysql://somebody:pass/secret@db/loket"],
      ["DATABASE_URL", "mysql://somebody:pass@secret@db/loket"],
      ["DATABASE_URL", "postgres//somebody:secret@db/loket"],
      ["DATABASE_URL", "postgres:/somebody:secret@db/loket"],
      ["DATABASE_URL", "somebody:secret@db/loket"],
      ["DATABASE_URL", "mysql://somebody:pass\nsecret@db/loket"],
      ["DATABASE_URL", "host=db user=somebody password=secret dbname=loket"],
      ["DATABASE_URL", "host=db user=somebody password = 'pass secret'"],
      ["DATABASE_URL", "jdbc:postgresql:loket?user=somebody&password=secret"],
      ["REDIS_URL", "secret@cache:6379"],
      ["REDIS_URL", "cache:6379,password=secret"],
      ["SMTP_URL", "somebody:secret@mail.example:587"],
      ["OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318?key=secret"],
      ["OTEL_EXPORTER_OTLP_ENDPOINT", "http://somebody:secret@collector"],
      ["OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/?key=secret"],
      ["OTEL_EXPORTER_OTLP_HEADERS", "Authorization=secret,no pair"],
      ["OTEL_EXPORTER_OTLP_HEADERS", "Authorization=secret%0d%0aX-More: 1"],
      ["OTEL_EXPORTER_OTLP_HEADERS", "Authorization=secret%ZZ"],
      ["OTEL_EXPORTER_OTLP_HEADERS", "a name=secret"],
      ["OTEL_RESOURCE_ATTRIBUTES", "deployment=secret%ff"],
    ] as const) {
      const problems = readConfig({ [name]: found })
      expect(problems).toEqual([expect.stringMatching(new RegExp(`^${name} .*; allowed is `))])
      expect(JSON.stringify(problems)).not.toContain("secret")
    }
  })
  test("a list of pairs is read as it is written, with what is escaped in it", () => {
    const list = " Authorization=Bearer%20a=b , x-team = models,empty=,"
    expect(pairsOf(list, true)).toEqual({ Authorization: "Bearer a=b", "x-team": "models", empty: "" })
    expect(pairsOf("team=m%C3%BCnchen", false)).toEqual({ team: "münchen" })
    expect(pairsOf("team=m%C3%BCnchen", true)).toBeUndefined()
    expect(readConfig({ OTEL_EXPORTER_OTLP_HEADERS: list, OTEL_TRACES_SAMPLER_ARG: ".01" })).toMatchObject({
      OTEL_EXPORTER_OTLP_HEADERS: list,
      OTEL_TRACES_SAMPLER_ARG: 0.01,
    })
  })
  test("who sells has a name where anything is said of it, and a tax number where there is VAT", () => {
    const seller = { SELLER_NAME: "PT Satu", SELLER_NPWP: "01.234.567.8-901.000", SELLER_VAT_BPS: "1100" }
    expect(readConfig(seller)).toMatchObject({ ...seller, SELLER_VAT_BPS: 1_100, SELLER_PRICES_INCLUDE_VAT: true })
    expect(readConfig({ ...seller, SELLER_NPWP: "1234567890123456" })).not.toBeArray()
    expect(readConfig({ ...seller, SELLER_NPWP: "" })).toEqual([expect.stringMatching(/^SELLER_NPWP is unset; /)])
    expect(readConfig({ ...seller, SELLER_NAME: "" })).toEqual([expect.stringMatching(/^SELLER_NAME is unset; /)])
    for (const npwp of ["12345678901234", "12345678901234567", "01.234.567.8.901.000"])
      expect(readConfig({ ...seller, SELLER_NPWP: npwp })).toEqual([
        expect.stringMatching(/^SELLER_NPWP is .* 15 or 16 digits/),
      ])
    expect(readConfig({ ...seller, SELLER_VAT_BPS: "10001" })).toEqual([expect.stringMatching(/^SELLER_VAT_BPS is /)])
  })
  test("a variable that is unset or empty has its default", () => {
    const unset = readConfig({})
    expect(unset).toMatchObject({
      HOST: "127.0.0.1",
      PORT: 8_787,
      LOG_LEVEL: "info",
      MAX_BODY_BYTES: 33_554_432,
      MAX_CONCURRENCY: 4_096,
      CAPACITY_WAIT_MS: 5_000,
      HEARTBEAT_MS: 8_000,
      SETTLE_DEADLINE_MS: 10_000,
      UPSTREAM_START_TIMEOUT_MS: 120_000,
      DRAIN_MS: 120_000,
      DATA_DIR: "./data",
    })
    expect(readConfig({ PORT: "", LOG_LEVEL: "", DATABASE_URL: "" })).toMatchObject({ PORT: 8_787, LOG_LEVEL: "info" })
  })
})
