/** Networks from which an account's owner signs in, as rows: a few of each account, the latest. */
import type { Sql } from "./database.ts"

/** Of one account. */
const NETWORKS = 20

/** Parts of a `with`, for a statement in which the password was right: `account` names what has the account's id. */
export const rememberNetwork = (sql: Sql, account: ReturnType<Sql>, network: string) => sql`
  remembered as (
    insert into account_networks (account_id, network) select id, ${network} from ${account}
    on conflict (account_id, network) do update set signed_in_at = now()
  ), outnumbered as (
    delete from account_networks n using ${account} a
    where n.account_id = a.id and n.network in (
      select network from account_networks where account_id = a.id and network <> ${network}
      order by signed_in_at desc, network offset ${NETWORKS - 1}
    )
  )`
