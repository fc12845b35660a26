/**
 * Which sites a search may find (the messages format's `allowed_domains` and `blocked_domains`): a domain stands for its
 * subdomains too, and may go on with the beginning of a path.
 */
export interface Domains {
  /** Undefined permits every site. */
  readonly allowed: readonly string[] | undefined
  readonly blocked: readonly string[]
}

/** `url` has been parsed before. */
export function permits({ allowed, blocked }: Domains, url: string): boolean {
  const { hostname, pathname } = new URL(url)
  const within = (domain: string): boolean => {
    const [host, path] = splitDomain(domain)
    if (hostname !== host && !hostname.endsWith(`.${host}`)) return false
    return path === "" || pathname === path || pathname.startsWith(`${path}/`)
  }
  return (allowed === undefined || allowed.some(within)) && !blocked.some(within)
}

/** `Example.com/blog/` is the host `example.com` and the path `/blog`; a scheme in front is what many write. */
function splitDomain(domain: string): [host: string, path: string] {
  const bare = domain.trim().replace(/^https?:\/\//i, "")
  const slash = bare.indexOf("/")
  const host = (slash < 0 ? bare : bare.slice(0, slash)).toLowerCase()
  return [host, slash < 0 ? "" : bare.slice(slash).replace(/[/*]+$/, "")]
}
