/** The roles of members of an account, of which the account's own person is the first owner without a row that says so. */
export const memberRoles = ["owner", "billing", "developer", "viewer"] as const
export type MemberRole = (typeof memberRoles)[number]
