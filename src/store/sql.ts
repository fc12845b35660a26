/** A connection's tagged template: Postgres' `bigint` is a bigint here, because money is. */
import type postgres from "postgres"

export type Sql = postgres.Sql<{ bigint: bigint }>
