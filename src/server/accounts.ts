/** The services around accounts: links by mail, second factors, keys, members. */
import { micro, MICRO_PER_RUPIAH } from "../../actors/money/micro.ts"
import { Accounts } from "../accounts/accounts.ts"
import { Breakers } from "../accounts/breakers.ts"
import { Children, MAX_MANAGERS, USES_A_MINUTE } from "../accounts/children.ts"
import type { AccountChanged } from "../accounts/in-force.ts"
import { Keys, type PageOrigins } from "../accounts/keys.ts"
import { Members } from "../accounts/members.ts"
import { Links } from "../accounts/links.ts"
import { OwnerMail } from "../accounts/owner-mail.ts"
import { Passkeys, relyingParty } from "../accounts/passkeys.ts"
import { SecondFactors } from "../accounts/second-factor.ts"
import { MinuteRateLimiter, PasswordThrottle, SignUpLimiter } from "../accounts/rate-limits.ts"
import { type PasswordCost, Passwords } from "../accounts/fields.ts"
import { TrialCredits, type TrialCreditLimits } from "../accounts/adjustments.ts"
import type { Config } from "../config.ts"
import type { Gateway } from "../gateway/gateway.ts"
import type { Log } from "../log.ts"
import type { OwnedKey } from "../store/account-settings.ts"
import { accountMailStore } from "../store/account-mails.ts"
import { accountStore } from "../store/accounts.ts"
import { allowanceStore, signUpStore, trialCreditStore } from "../store/allowances.ts"
import { apiKeyStore } from "../store/api-keys.ts"
import { breakerStore } from "../store/breakers.ts"
import type { Database } from "../store/database.ts"
import { installationSecret } from "../store/processes.ts"
import { managementTokenStore } from "../store/credentials.ts"
import { memberStore } from "../store/members.ts"
import { passkeyStore } from "../store/passkeys.ts"
import { secondFactorStore } from "../store/second-factors.ts"
import { sessionStore } from "../store/sessions.ts"
import type { SpendingAlertStore } from "../store/alerts.ts"

const hex = (keyHash: Uint8Array): string => Buffer.from(keyHash).toString("hex")

/** Whether mail leaves: there is a server that takes it. */
export const sendsMail = (
  config: Config,
): config is Config & { readonly SMTP_URL: string; readonly MAIL_FROM: string } =>
  config.SMTP_URL !== undefined && config.MAIL_FROM !== undefined

/** And a base address for links that does not come from a visitor's header. */
export const sendsLinks = (config: Config): boolean => sendsMail(config) && config.PUBLIC_URL !== undefined

export const trialCreditLimits = (config: Config): TrialCreditLimits | undefined =>
  config.TRIAL_CREDIT_RP === 0
    ? undefined
    : {
        amountMicro: micro(BigInt(config.TRIAL_CREDIT_RP) * MICRO_PER_RUPIAH),
        perNetwork: config.TRIAL_CREDITS_PER_NETWORK,
        perDay: config.TRIAL_CREDITS_PER_DAY,
      }

/** Who has accounts, and what they get in by. */
export interface People {
  readonly accounts: Accounts
  readonly links: Links
  readonly factors: SecondFactors
  readonly passkeys: Passkeys
  readonly keys: Keys
  readonly members: Members
  readonly children: Children
  readonly breakers: Breakers
  readonly trial: TrialCredits
}

interface AccountServicesOptions {
  readonly config: Config
  readonly log: Log
  readonly database: Database
  readonly gateway: Gateway
  readonly spendingAlerts: SpendingAlertStore
  readonly pageOrigins: PageOrigins
  /** Where the gateway listens; the port may be the system's choice. */
  readonly listens: { readonly port: number }
  readonly passwordCost: PasswordCost | undefined
}

export function openAccounts(
  { config, log, database, gateway, listens, spendingAlerts, pageOrigins, passwordCost }: AccountServicesOptions,
  accountChanged: AccountChanged,
): People {
  const { actors, catalogue, clock } = gateway.ports
  const keysChanged = (changed: readonly OwnedKey[]) => actors.keys.inForce(changed.map(({ keyHash }) => hex(keyHash)))
  const sessions = sessionStore(database)
  const passwords = new Passwords(passwordCost)
  const mails = accountMailStore(database)
  const allowances = allowanceStore(database)
  const mail = new OwnerMail({ store: mails, allowances, isOn: sendsLinks(config), log })
  const factorStore = secondFactorStore(database)
  const slowDown = new PasswordThrottle()
  const passkeyRows = passkeyStore(database)
  const passkeys = new Passkeys({
    store: passkeyRows,
    party: () => relyingParty(config.PUBLIC_URL, listens.port),
    log,
  })
  const accounts = new Accounts({
    accounts: accountStore(database),
    sessions,
    passwords,
    slowDown,
    signUps: new SignUpLimiter(signUpStore(database), {
      perHour: config.SIGN_UPS_PER_HOUR,
      perDay: config.SIGN_UPS_PER_DAY,
    }),
    mail,
    factors: factorStore,
    allowances,
    operatorsNeedFactor: config.OPERATOR_SECOND_FACTOR,
    keysChanged,
    accountChanged,
  })
  const trial = new TrialCredits({
    terms: trialCreditLimits(config),
    store: trialCreditStore(database),
    secret: () => installationSecret(database, "trial-credits"),
    credited: (accountId) => {
      actors.accounts.freed(accountId)
      accountChanged(accountId)
    },
    failed: (error) => log.warn("trial credit not given", { error: String(error) }),
  })
  const failed = (error: unknown) => log.warn("mail not kept", { error: String(error) })
  const keys = new Keys({
    originsChanged: () => pageOrigins.refresh(),
    store: apiKeyStore(database),
    keysChanged,
    accountChanged,
    mostKeys: config.MAX_KEYS_PER_ACCOUNT,
    isModel: (id) => catalogue.find(id, clock.now()) !== undefined,
    live: (keyHash) => actors.keys.viewIfActive(hex(keyHash)),
  })
  const uses = new MinuteRateLimiter({
    limit: USES_A_MINUTE,
    remembered: MAX_MANAGERS,
    share: () => gateway.share,
    monotonic: () => clock.monotonic(),
  })
  return {
    accounts,
    trial,
    links: new Links({ accounts, store: mails, sessions, passwords, mail, trial, keysChanged, accountChanged, failed }),
    factors: new SecondFactors({
      accounts,
      store: factorStore,
      passkeys,
      passkeyStore: passkeyRows,
      slowDown,
      sessions,
      allowances,
      now: Date.now,
    }),
    passkeys,
    members: new Members({
      store: memberStore(database),
      accounts,
      sessions,
      mail,
      allowances,
      accountChanged,
    }),
    breakers: new Breakers({
      store: breakerStore(database),
      alerts: spendingAlerts,
      accountChanged,
      keysChanged,
      ceilingChanged: (purse) => actors.breakers.changed(purse),
    }),
    keys,
    children: new Children({
      store: managementTokenStore(database),
      keys,
      accountChanged,
      count: (tokenId) => uses.count(tokenId),
    }),
  }
}
