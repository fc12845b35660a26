/** Somebody who is signed in to an own account, for a controller that is served alone. */
export const ownerSession = (accountId: string) => ({
  id: "ses_1",
  personId: accountId,
  accountId,
  memberRole: "owner" as const,
  looksAt: undefined,
  timeZone: "Asia/Jakarta",
  role: "customer" as const,
  operatorRole: undefined,
  lacksFactor: false,
  tokenHash: new Uint8Array(),
})
