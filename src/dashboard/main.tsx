/** The whole dashboard: session, language, page, and the frame without navigation of the pages for visitors. */
import {
  MutationCache,
  notifyManager,
  QueryCache,
  QueryClient,
  QueryClientProvider,
  useQuery,
} from "@tanstack/react-query"
import { type ComponentType, type ReactNode, type Ref, StrictMode, useEffect, useRef } from "react"
import { createRoot } from "react-dom/client"
import { Link, Redirect, Route, Router, Switch, useLocation, useSearch } from "wouter"
import { ApiFailure, isElsewhere, isSignedOut, mayRetry, retryInMs } from "./api/client.ts"
import { noteWriting } from "./api/browser.ts"
import { Live } from "./api/live.ts"
import { type Account, accountQuery, secondFactorQuery } from "./api/queries.ts"
import { LegalLinks, addFonts, applyTheme, Logo, LanguageSwitch, PreferredLanguage } from "./shell/appearance.tsx"
import { ButtonLink } from "./components/button.tsx"
import { Cover } from "./components/dialog.tsx"
import { EmptyState, ErrorState, Notice, Skeleton, ToastProvider, useCode } from "./components/feedback.tsx"
import { TimeZoneContext, useTimeZone, useLanguage } from "./i18n/language.tsx"
import { type DashboardPage, pages } from "./pages.tsx"
import { CrashBoundary } from "./shell/notices.tsx"
import { useRoleText, useShellText } from "./shell/text.ts"
import { SessionProvider, useSession, wasSignedIn } from "./shell/session.tsx"
import { Shell } from "./shell/shell.tsx"

/** When a session has ended, the next query fails. Then the account is refetched; a visitor had no session. */
const onAuthError = (error: Error) => {
  // It was turned off meanwhile. The gate is shown, and nothing is asked for behind it.
  if (error instanceof ApiFailure && error.code === "auth.second_factor_required")
    void client.invalidateQueries(secondFactorQuery)
  const signedIn = client.getQueryState(accountQuery.queryKey)?.status === "success"
  if (signedIn && (isSignedOut(error) || isElsewhere(error))) void client.invalidateQueries(accountQuery)
}
// By itself it waits for a timer, until which React puts back what a field said before. A second key pressed meanwhile would count
// from there.
notifyManager.setScheduler(queueMicrotask)
const client: QueryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (error, { queryKey }) => {
      if (queryKey[0] !== accountQuery.queryKey[0]) onAuthError(error)
    },
  }),
  mutationCache: new MutationCache({ onError: onAuthError }),
  defaultOptions: {
    queries: { staleTime: 5_000, retry: mayRetry, retryDelay: retryInMs },
    // Offline a change fails now. It is not carried out later, when nobody thinks of it any more.
    mutations: { networkMode: "always" },
  },
})

// Before the code of the page, because all else waits for it and a browser asks for six things at a time.
void client.prefetchQuery(accountQuery)

export const App = () => (
  <QueryClientProvider client={client}>
    <PreferredLanguage>
      <ToastProvider>
        <Router base="/dashboard">
          <SessionProvider
            waiting={<Waiting />}
            failed={(error, retry) => (
              <main className="waiting">
                <ErrorState error={error} retry={retry} />
              </main>
            )}
          >
            <Frame />
          </SessionProvider>
        </Router>
      </ToastProvider>
    </PreferredLanguage>
  </QueryClientProvider>
)

const Waiting = () => (
  <main className="waiting">
    <Skeleton lines={4} />
    <AtAddress of={Ahead} />
  </main>
)

interface AtAddressProps {
  readonly of: ComponentType<{ readonly page: DashboardPage }>
  /** Where no page has the address. */
  readonly otherwise?: ReactNode
}

/** What is made of the page that has the address. */
const AtAddress = ({ of: Of, otherwise = null }: AtAddressProps) => (
  <Switch>
    {pages.map((page) => (
      <Route key={page.path} path={page.path}>
        <Of page={page} />
      </Route>
    ))}
    <Route>{otherwise}</Route>
  </Switch>
)

/** The code of the page, and what it is gated by, come beside the account, unless it is only for somebody signed in and nobody was. */
function Ahead({ page: { access, code } }: { readonly page: DashboardPage }) {
  const isLikely = access === "visitor" || access === "anyone" || wasSignedIn()
  useEffect(() => {
    if (!isLikely) return
    code.fetchAhead()
    if (access === "operator") void client.prefetchQuery(secondFactorQuery)
  }, [isLikely, access, code])
  return null
}

function Frame() {
  const { account, isHeld } = useSession()
  const here = useTimeZone()
  const [path] = useLocation()
  const isBare = pages.some((page) => (page.access === "visitor" || page.bare) && page.path === path)
  const Around = isBare ? BareFrame : Shell
  const main = useRef<HTMLElement>(null)
  const arrived = useRef(path)
  // A new page starts at its top, as after any page load. Also where the frame is another one: after a sign-up or a sign-out.
  useEffect(() => {
    if (arrived.current === path) return
    arrived.current = path
    window.scrollTo(0, 0)
    // A form for visitors begins in its first field.
    const isWritten = isBare && main.current?.contains(document.activeElement) === true
    if (!isWritten) main.current?.focus({ preventScroll: true })
  }, [path, isBare])
  const page = (
    <Around main={main}>
      <CrashBoundary place={path}>
        <AtAddress of={Admitted} otherwise={<NotFound />} />
      </CrashBoundary>
    </Around>
  )
  return (
    <TimeZoneContext value={account?.time_zone ?? here}>
      {account !== undefined && !isHeld && <Live key={account.id} />}
      {page}
      {isHeld && <SignInAgain place={path} />}
    </TimeZoneContext>
  )
}

/** Over a page that is kept with what is being written in it, until its session is back. */
function SignInAgain({ place }: { readonly place: string }) {
  const text = useShellText()
  const signIn = pages.find(({ path }) => path === "/sign-in")
  return (
    <Cover title={text.product}>
      <CrashBoundary place={place}>{signIn !== undefined && <Content code={signIn.code} />}</CrashBoundary>
    </Cover>
  )
}

/** The page, or a redirect for somebody who may not see it. */
function Admitted({ page: { access, may, code } }: { readonly page: DashboardPage }) {
  const { account } = useSession()
  const [path] = useLocation()
  const search = useSearch()
  if (access === "visitor" && account !== undefined) return <Redirect to={nextPath()} replace />
  if ((access === "customer" || access === "operator") && account === undefined) {
    const requested = search === "" ? path : `${path}?${search}`
    // A link's token stays in the fragment, which no server sees.
    const signIn = `/sign-in?next=${encodeURIComponent(requested)}${location.hash}`
    return <Redirect to={requested === "/" ? "/sign-in" : signIn} replace />
  }
  if (access === "operator" && account?.role !== "operator") return <Forbidden />
  if (may !== undefined && account?.may.includes(may) === false) return <RoleNeeded role={account.member_role} />
  return access === "operator" ? (
    <SecondFactorGate>
      <Content code={code} />
    </SecondFactorGate>
  ) : (
    <Content code={code} />
  )
}

function Content({ code }: Pick<DashboardPage, "code">) {
  const Page = useCode(code)
  return Page === undefined ? <Skeleton lines={6} /> : <Page />
}

/** Operators set up a second factor before they see anything of their pages. */
function SecondFactorGate({ children }: { readonly children: ReactNode }) {
  const text = useShellText()
  const { data, errorUpdateCount: errors } = useQuery(secondFactorQuery)
  // A page that is shown is not taken away when it is asked again.
  if (data === undefined && errors === 0) return <Skeleton lines={6} />
  if (data?.needed !== true) return children
  return (
    <EmptyState
      isPage
      title={text.factorNeeded}
      action={
        <ButtonLink to="/settings" kind="primary">
          {text.toSettings}
        </ButtonLink>
      }
    >
      {text.factorNeededHint} <code>403 auth.second_factor_required</code>
    </EmptyState>
  )
}

/** The page that was requested before the sign-in. It is always inside the dashboard. */
function nextPath(): string {
  const next = new URLSearchParams(location.search).get("next") ?? "/"
  return /^\/(?![/\\])/.test(next) ? `${next}${location.hash}` : "/"
}

/** The words of the API's own error. */
function Forbidden() {
  const text = useShellText()
  return (
    <DeadEnd title={text.forbidden}>
      {text.forbiddenHint} <code>403 auth.forbidden</code>
    </DeadEnd>
  )
}

/** A page of the account that a member's role does not reach. */
function RoleNeeded({ role }: { readonly role: Account["member_role"] }) {
  const text = useRoleText()
  return (
    <DeadEnd title={text.roleNeeded}>
      {text.roleNeededHint(text.roles[role])} <code>403 auth.role_required</code>
    </DeadEnd>
  )
}

function NotFound() {
  const text = useShellText()
  return <DeadEnd title={text.notFound}>{text.notFoundHint}</DeadEnd>
}

function DeadEnd({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  const text = useShellText()
  return (
    <EmptyState
      isPage
      title={title}
      action={
        <ButtonLink to="/" kind="primary">
          {text.toHome}
        </ButtonLink>
      }
    >
      {children}
    </EmptyState>
  )
}

applyTheme()
addFonts()
noteWriting()
const root = document.getElementById("root")
if (root === null) throw new Error("the page has no root")
createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
)

interface BareFrameProps {
  readonly main: Ref<HTMLElement>
  readonly children: ReactNode
}

/** The frame of the sign-in and sign-up pages: no navigation, just the one thing to do. */
function BareFrame({ main, children }: BareFrameProps) {
  const text = useShellText()
  const { language } = useLanguage()
  return (
    <div className="bare">
      <header className="bare-head">
        <a href={`/?lang=${language}`} className="brand">
          <Logo />
          {text.product}
        </a>
        <nav className="bare-links" aria-label={text.mainNavigation}>
          <Link href="/models">{text.navigation.models}</Link>
          <a href={`/docs?lang=${language}`}>{text.apiReference}</a>
        </nav>
      </header>
      <main ref={main} tabIndex={-1}>
        {/* Over http, but on one's own machine, a browser does not keep the session's cookie. */}
        {!isSecureContext && <Notice tone="bad">{text.insecure}</Notice>}
        {children}
      </main>
      <footer className="bare-foot">
        <LegalLinks />
        <LanguageSwitch />
      </footer>
    </div>
  )
}
