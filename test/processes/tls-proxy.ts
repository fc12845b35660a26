/** nginx, HAProxy or Caddy before a gateway, set up as `docs/operating/proxies.md` says. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { blocksOf } from "./blocks.ts"
import { freePort } from "../free-port.ts"

const PAGE = "docs/operating/proxies.md"

interface Place {
  /** The gateway's, as host and port. */
  readonly gateway: string
  readonly port: number
  /** Has the certificate, and takes what the proxy writes. */
  readonly directory: string
}

interface Kind {
  readonly program: string
  readonly language: string
  readonly file: string
  /** What differs between the page and this machine: each is in the page's text once. */
  readonly replaced: (place: Place) => readonly (readonly [string, string])[]
  /** What stands around the page's text. */
  readonly whole: (text: string, place: Place) => string
  readonly args: (file: string) => readonly string[]
}

const kinds = {
  nginx: {
    program: "nginx",
    language: "nginx",
    file: "nginx.conf",
    replaced: ({ port, directory, gateway }) => [
      ["server 127.0.0.1:8787;", `server ${gateway};`],
      ["listen 443 ssl http2;", `listen ${port} ssl http2;`],
      ["/etc/ssl/loket/fullchain.pem", join(directory, "fullchain.pem")],
      ["/etc/ssl/loket/privkey.pem", join(directory, "privkey.pem")],
    ],
    whole: (text, { directory }) => {
      const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map((name) => `${name}_temp_path ${directory};\n`)
        .join("")
      return `daemon off;\npid ${directory}/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n${temporary}${text}}\n`
    },
    args: (file) => ["-c", file],
  },
  HAProxy: {
    program: "haproxy",
    language: "haproxy",
    file: "haproxy.cfg",
    replaced: ({ port, directory, gateway }) => [
      ["server one 127.0.0.1:8787", `server one ${gateway}`],
      ["bind :443", `bind :${port}`],
      ["/etc/ssl/loket/both.pem", join(directory, "both.pem")],
    ],
    whole: (text) => text,
    args: (file) => ["-db", "-f", file],
  },
  Caddy: {
    program: "caddy",
    language: "caddyfile",
    file: "Caddyfile",
    replaced: ({ port, directory, gateway }) => [
      ["127.0.0.1:8787", gateway],
      ["\napi.example.com {", `\nhttps://:${port} {\n\ttls ${directory}/fullchain.pem ${directory}/privkey.pem`],
    ],
    whole: (text) => `{\n\tadmin off\n\tauto_https disable_redirects\n}\n${text}`,
    args: (file) => ["run", "--adapter", "caddyfile", "--config", file],
  },
} as const satisfies Record<string, Kind>

export type ProxyName = keyof typeof kinds
export const proxyNames = Object.keys(kinds) as ProxyName[]

/** Where Debian has them; null where one is not installed. */
export const programOf = (name: ProxyName): string | null =>
  Bun.which(kinds[name].program, { PATH: `${process.env["PATH"]}:/usr/sbin:/usr/local/sbin` })

export class TlsProxy implements AsyncDisposable {
  readonly port: number
  readonly #child: Bun.Subprocess
  readonly #directory: string

  private constructor(port: number, child: Bun.Subprocess, directory: string) {
    this.port = port
    this.#child = child
    this.#directory = directory
  }

  /** Resolves when it takes connections. `change` is for what the page warns of. */
  static async start(name: ProxyName, gateway: string, change = (text: string) => text): Promise<TlsProxy> {
    const program = programOf(name)
    if (program === null) throw new Error(`${name} is not installed`)
    const kind: Kind = kinds[name]
    const directory = mkdtempSync(join(tmpdir(), "loket-proxy-"))
    makeCertificate(directory)
    const place = { gateway, port: freePort(), directory }
    let text = change(await configurationOf(kind.language))
    for (const [theirs, ours] of kind.replaced(place)) {
      if (text.split(theirs).length !== 2) throw new Error(`${PAGE}: ${name} has not once: ${theirs}`)
      text = text.replace(theirs, () => ours)
    }
    const file = join(directory, kind.file)
    writeFileSync(file, kind.whole(text, place))
    const home = join(directory, "home")
    mkdirSync(home)
    const child = Bun.spawn([program, ...kind.args(file)], {
      cwd: directory,
      env: { PATH: process.env["PATH"], HOME: home },
      stdin: "ignore",
      stdout: "ignore",
      stderr: Bun.file(join(directory, "complaints")),
    })
    const proxy = new TlsProxy(place.port, child, directory)
    for (let attempt = 0; !(await takesConnections(place.port)); attempt++) {
      if (attempt < 400 && child.exitCode === null) await Bun.sleep(25)
      else {
        const complaints = await Bun.file(join(directory, "complaints")).text()
        await proxy[Symbol.asyncDispose]()
        throw new Error(`${name} does not begin: ${complaints}`)
      }
    }
    return proxy
  }

  async [Symbol.asyncDispose]() {
    this.#child.kill("SIGTERM")
    const late = setTimeout(() => this.#child.kill("SIGKILL"), 5_000)
    await this.#child.exited
    clearTimeout(late)
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

async function configurationOf(language: string): Promise<string> {
  const [block, ...more] = (await blocksOf(PAGE)).filter((each) => each.language === language)
  if (block === undefined || more.length > 0) throw new Error(`${PAGE}: not one block of ${language}`)
  return block.text
}

/** Self-signed, and in one file with its key as HAProxy takes it. */
function makeCertificate(directory: string): void {
  const [key, chain, both] = ["privkey.pem", "fullchain.pem", "both.pem"].map((name) => join(directory, name))
  const ask = `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost`
  const script = `${ask} -keyout ${key} -out ${chain} && cat ${chain} ${key} > ${both}`
  const { exitCode, stderr } = Bun.spawnSync(["sh", "-c", script])
  if (exitCode !== 0) throw new Error(`no certificate: ${stderr.toString()}`)
}

const takesConnections = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => (socket.destroy(), resolve(true)))
    socket.on("error", () => resolve(false))
  })
