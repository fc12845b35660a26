/** What only this installation knows: made by the first process that starts, the same for all others and ever after. */
import type { Database } from "./database.ts"

const SECRET_BYTES = 32

/** Under which accounts are named to backends. */
export async function endUserSecret(database: Database): Promise<Uint8Array> {
  const name = "end-users"
  const stored = () =>
    database.run((sql) => sql<{ secret: Uint8Array }[]>`select secret from installation_secrets where name = ${name}`, {
      retry: true,
    })
  const [known] = await stored()
  if (known !== undefined) return known.secret
  const fresh = crypto.getRandomValues(new Uint8Array(SECRET_BYTES))
  await database.run(
    (sql) => sql`insert into installation_secrets (name, secret) values (${name}, ${fresh}) on conflict do nothing`,
    { retry: true },
  )
  // Whoever came first has made it.
  const [made] = await stored()
  if (made === undefined) throw new Error("The installation's secret for end users was not kept")
  return made.secret
}

/** The same for every process on one database, and another one on any other; 16 hexadecimal digits that give nothing away. */
export const installationName = (secret: Uint8Array): string =>
  new Bun.CryptoHasher("sha256", secret).update("installation").digest("hex").slice(0, 16)
