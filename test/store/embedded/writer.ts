/** A program for the durability test: writes numbers one after the other, and prints each one that was acknowledged. */
import { openDatabase } from "../../../src/store/database.ts"
import { usualTerms } from "../../../src/store/embedded/checkpoints.ts"
import { openEmbedded } from "../../../src/store/embedded/open.ts"

const [dataDir, round, often] = Bun.argv.slice(2)
if (!dataDir || !round) throw new Error("usage: writer.ts <data directory> <round> [often]")
/** It does little else. */
const oftenTerms = { lookMs: 1, logBytes: 1_000, ageMs: 1 }
const { url } = await openEmbedded({ dataDir, checkpoints: often === "often" ? oftenTerms : usualTerms })
const db = openDatabase({ url, connections: 4 })
await db.run((sql) => sql`create table if not exists written (round integer, n integer, primary key (round, n))`)
for (let n = 0; ; n++) {
  await db.run((sql) => sql`insert into written values (${Number(round)}, ${n})`)
  process.stdout.write(`${n}\n`)
}
