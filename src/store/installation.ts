/** What only this installation knows: made by the first process that starts, the same for all others and ever after. */
import type { Database } from "./database.ts"

const SECRET_BYTES = 32

/** `end-users`: under which accounts are named to backends; `trial-credits`: by which addresses are known that had trial credit. */
export async function installationSecret(database: Database, name: "end-users" | "trial-credits"): Promise<Uint8Array> {
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
  if (made === undefined) throw new Error("The installation's secret was not kept")
  return made.secret
}

/** The same for every process on one database, and another one on any other; 16 hexadecimal digits that give nothing away. */
export const installationName = (secret: Uint8Array): string =>
  new Bun.CryptoHasher("sha256", secret).update("installation").digest("hex").slice(0, 16)
