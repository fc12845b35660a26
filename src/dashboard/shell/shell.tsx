/** The frame around every page: navigation at the side, on a phone at the bottom; balance and account at hand. */
import { Check, CircleUser, Ellipsis, FileCode, LogOut, Users, Wallet } from "lucide-react"
import { useQuery } from "@tanstack/react-query"
import type { ReactNode, RefObject } from "react"
import { Link, useLocation, useRoute } from "wouter"
import { useConnection } from "../api/live.ts"
import { membershipsQuery } from "../api/queries.ts"
import { ButtonLink, Menu } from "../components/button.tsx"
import { Logo, LanguageSwitch, ThemeSwitch } from "./appearance.tsx"
import { toFirstWrong } from "../components/dialog.tsx"
import { useToasts } from "../components/feedback.tsx"
import { Money } from "../components/values.tsx"
import { type DashboardPage, pages } from "../pages.tsx"
import { Notices } from "./notices.tsx"
import { useLanguage } from "../i18n/language.tsx"
import { useSession, useSwitch } from "./session.tsx"
import { useRoleText, useShellText } from "./text.ts"

interface ShellProps {
  /** What has the focus when a page has come. */
  readonly main: RefObject<HTMLElement | null>
  readonly children: ReactNode
}

export function Shell({ main, children }: ShellProps) {
  const text = useShellText()
  return (
    <div className="shell">
      <a
        className="skip-link"
        href="#main"
        onClick={(event) => {
          event.preventDefault()
          main.current?.focus()
        }}
      >
        {text.skip}
      </a>
      <SideBar />
      <TopBar />
      <main id="main" ref={main} tabIndex={-1} className="main" onSubmit={toFirstWrong}>
        <Notices />
        {children}
      </main>
      <BottomBar />
    </div>
  )
}

function useNavigation(): readonly DashboardPage[] {
  const { account } = useSession()
  return pages.filter(({ navigation, access, may }) => {
    if (navigation === undefined || (may !== undefined && account?.may.includes(may) === false)) return false
    if (access === "anyone") return true
    if (access === "operator") return account?.role === "operator"
    return access === "customer" && account !== undefined
  })
}

function SideBar() {
  const text = useShellText()
  const { account } = useSession()
  const entries = useNavigation()
  return (
    <aside className="side-bar">
      <Link href="/" className="brand">
        <Logo />
        {text.product}
      </Link>
      <nav aria-label={text.mainNavigation}>
        <ul>
          {entries.map((page) => (
            <li key={page.path}>
              <NavigationLink page={page} />
            </li>
          ))}
        </ul>
      </nav>
      <div className="side-bar-foot">
        {account !== undefined && <ConnectionSign />}
        {account === undefined ? <VisitorButtons /> : <Balance />}
        <AccountMenu />
      </div>
    </aside>
  )
}

function NavigationLink({ page: { path, navigation, code } }: { readonly page: DashboardPage }) {
  const text = useShellText()
  const [here] = useRoute(path === "/" ? "/" : `${path}/*?`)
  if (navigation === undefined) return null
  return (
    <Link
      href={path}
      className="navigation-link"
      aria-current={here ? "page" : undefined}
      onPointerEnter={() => code.fetchAhead()}
      onFocus={() => code.fetchAhead()}
    >
      {navigation.icon}
      <span>{text.navigation[navigation.label]}</span>
    </Link>
  )
}

/** The bar at the top of a phone. */
function TopBar() {
  const text = useShellText()
  const { account } = useSession()
  return (
    <header className="top-bar">
      <Link href="/" className="brand">
        <Logo />
        {text.product}
      </Link>
      {account !== undefined && <ConnectionSign />}
      {account === undefined ? <VisitorButtons /> : <Balance />}
    </header>
  )
}

/** As many links as a narrow phone has room for, beside "More". */
const NEAR = 4

/** The bar at the bottom of a phone: the most used pages, and a menu with the rest. */
function BottomBar() {
  const text = useShellText()
  const entries = useNavigation()
  const near = entries.filter(({ navigation }) => navigation?.phone).slice(0, NEAR)
  const far = entries.filter((page) => !near.includes(page))
  return (
    <nav className="bottom-bar" aria-label={text.mainNavigation}>
      {near.map((page) => (
        <NavigationLink key={page.path} page={page} />
      ))}
      <Menu
        label={text.more}
        className="menu-up"
        trigger={
          <>
            <Ellipsis />
            <span>{text.more}</span>
          </>
        }
      >
        {far.map((page) => (
          <NavigationLink key={page.path} page={page} />
        ))}
        {far.length > 0 && <hr />}
        <AccountPanel />
      </Menu>
    </nav>
  )
}

function Balance() {
  const text = useShellText()
  const { account } = useSession()
  if (account === undefined) return null
  const available = BigInt(account.balance_micro) - BigInt(account.held_micro)
  return (
    <p className="balance">
      <Wallet aria-hidden="true" />
      <span className="balance-label">{text.available}</span>
      <strong>
        <Money micro={available} />
      </strong>
    </p>
  )
}

function VisitorButtons() {
  const text = useShellText()
  return (
    <div className="visitor-buttons">
      <ButtonLink to="/sign-in" size="small">
        {text.signIn}
      </ButtonLink>
      <ButtonLink to="/sign-up" size="small" kind="primary">
        {text.signUp}
      </ButtonLink>
    </div>
  )
}

function AccountMenu() {
  const text = useShellText()
  const { account } = useSession()
  return (
    <Menu
      label={account === undefined ? text.theme : `${text.account}: ${account.signed_in.email}`}
      className="menu-up account-menu"
      trigger={
        <>
          <CircleUser aria-hidden="true" />
          <span className="account-email">{account?.signed_in.email ?? text.theme}</span>
          <Ellipsis aria-hidden="true" />
        </>
      }
    >
      <AccountPanel />
    </Menu>
  )
}

function AccountPanel() {
  const text = useShellText()
  const { language } = useLanguage()
  const { account, signOut } = useSession()
  const toasts = useToasts()
  const [, navigate] = useLocation()
  // The menu has closed by then: whoever leaves a computer to others must know that the session is still there.
  const leave = () =>
    signOut().then(
      () => navigate("/sign-in"),
      () => toasts.failed(text.notSignedOut),
    )
  return (
    <div className="account-panel">
      {account !== undefined && <p className="account-panel-email">{account.signed_in.email}</p>}
      <AccountSwitcher />
      <LanguageSwitch />
      <ThemeSwitch />
      <hr />
      <a className="navigation-link" href={`/docs?lang=${language}`}>
        <FileCode aria-hidden="true" />
        {text.apiReference}
      </a>
      {account !== undefined && (
        <button type="button" className="navigation-link" data-closes onClick={() => void leave()}>
          <LogOut aria-hidden="true" />
          {text.signOut}
        </button>
      )}
    </div>
  )
}

/** In the menu of the account. */
function AccountSwitcher() {
  const text = useRoleText()
  const { account } = useSession()
  const { data: memberships = [] } = useQuery({ ...membershipsQuery, enabled: account !== undefined })
  const change = useSwitch()
  if (account === undefined || memberships.length === 0) return null
  const own = { id: account.signed_in.id, email: account.signed_in.email, note: text.own }
  const others = memberships.map(({ account_id: id, email, role }) => ({ id, email, note: text.roles[role] }))
  return (
    <div className="account-switch" role="group" aria-label={text.accounts}>
      <p className="account-switch-title">
        <Users aria-hidden="true" />
        {text.accounts}
      </p>
      {[own, ...others].map(({ id, email, note }) => (
        <button
          key={id}
          type="button"
          className="navigation-link"
          aria-pressed={id === account.id}
          disabled={change.isPending}
          onClick={() => id !== account.id && change.mutate(id)}
        >
          <span className="account-switch-words">
            <span>{email}</span>
            <small>{note}</small>
          </span>
          {id === account.id && <Check aria-hidden="true" />}
        </button>
      ))}
    </div>
  )
}

/** Whether the page follows its account, in a dot and a word. */
function ConnectionSign() {
  const text = useShellText()
  const { connection } = useConnection()
  return (
    <span className={`connection connection-${connection}`} title={text.connections[connection]}>
      <span className="connection-dot" aria-hidden="true" />
      <span className="connection-word">{text.connections[connection]}</span>
    </span>
  )
}
