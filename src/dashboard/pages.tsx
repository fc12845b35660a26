/**
 * Every page of the dashboard, in the order of the navigation: where it is, who may see it, and where its code is. A page
 * is loaded when it is first opened. See README.md for how to add one.
 */
import {
  BookOpen,
  Boxes,
  ChartColumn,
  House,
  KeyRound,
  MessageSquare,
  Settings,
  ShieldCheck,
  Wallet,
} from "lucide-react"
import type { ComponentType, ReactNode } from "react"
import type { Account } from "./api/queries.ts"
import { Code } from "./components/feedback.tsx"
import type { ShellText } from "./shell/text.ts"

export interface DashboardPage {
  /** Below `/dashboard`; a wouter pattern. */
  readonly path: string
  /** `customer` and `operator` pages need a session, `visitor` pages need none to exist, `anyone` pages do not care. */
  readonly access: "customer" | "operator" | "visitor" | "anyone"
  readonly code: Code<ComponentType>
  /** What a member's role must allow to open it. */
  readonly may?: Account["may"][number]
  /** Alone in the middle, as all that is for visitors. */
  readonly bare?: true
  /** Its place in the navigation; `phone` ones also have one in the bar at the bottom of a phone. */
  readonly navigation?: {
    readonly label: keyof ShellText["navigation"]
    readonly icon: ReactNode
    readonly phone?: boolean
  }
}

const page = (load: () => Promise<{ readonly default: ComponentType }>) => new Code(async () => (await load()).default)

/** Reached from the operator's overview, and shown under its place in the navigation. */
const operatorPages = [
  ["/operator/profit", () => import("./pages/operator/profit.tsx")],
  ["/operator/accounts", () => import("./pages/operator/accounts.tsx")],
  ["/operator/accounts/:id", () => import("./pages/operator/account.tsx")],
  ["/operator/accounts/:id/calls", () => import("./pages/operator/account-calls.tsx")],
  ["/operator/top-ups", () => import("./pages/operator/top-ups.tsx")],
  ["/operator/refunds", () => import("./pages/operator/refunds.tsx")],
  ["/operator/payment-problems", () => import("./pages/operator/payment-problems.tsx")],
  ["/operator/models", () => import("./pages/operator/models.tsx")],
  ["/operator/models/:model", () => import("./pages/operator/model.tsx")],
  ["/operator/backends", () => import("./pages/operator/backends.tsx")],
  ["/operator/billing", () => import("./pages/operator/billing.tsx")],
  ["/operator/audit", () => import("./pages/operator/audit.tsx")],
] as const

export const pages: readonly DashboardPage[] = [
  {
    path: "/",
    access: "customer",
    code: page(() => import("./pages/home/page.tsx")),
    navigation: { label: "home", icon: <House />, phone: true },
  },
  {
    path: "/quick-start",
    access: "customer",
    code: page(() => import("./pages/quick-start/page.tsx")),
    navigation: { label: "quickStart", icon: <BookOpen /> },
  },
  {
    path: "/keys",
    access: "customer",
    code: page(() => import("./pages/keys/page.tsx")),
    navigation: { label: "keys", icon: <KeyRound />, phone: true },
  },
  {
    path: "/usage",
    access: "customer",
    code: page(() => import("./pages/usage/page.tsx")),
    navigation: { label: "usage", icon: <ChartColumn />, phone: true },
  },
  {
    path: "/wallet",
    access: "customer",
    may: "books",
    code: page(() => import("./pages/wallet/page.tsx")),
    navigation: { label: "wallet", icon: <Wallet />, phone: true },
  },
  {
    path: "/wallet/statement",
    access: "customer",
    may: "books",
    code: page(() => import("./pages/wallet/statement.tsx")),
  },
  {
    path: "/wallet/:id",
    access: "customer",
    may: "books",
    code: page(() => import("./pages/wallet/payment-page.tsx")),
  },
  {
    path: "/wallet/:id/receipt",
    access: "customer",
    may: "books",
    code: page(async () => ({ default: (await import("./pages/wallet/payment-page.tsx")).ReceiptPage })),
  },
  {
    path: "/playground",
    access: "customer",
    may: "build",
    code: page(() => import("./pages/playground/page.tsx")),
    navigation: { label: "playground", icon: <MessageSquare /> },
  },
  {
    path: "/models",
    access: "anyone",
    code: page(() => import("./pages/models/page.tsx")),
    navigation: { label: "models", icon: <Boxes />, phone: true },
  },
  {
    path: "/settings",
    access: "customer",
    code: page(() => import("./pages/settings/page.tsx")),
    navigation: { label: "settings", icon: <Settings /> },
  },
  {
    path: "/operator",
    access: "operator",
    code: page(() => import("./pages/operator/overview.tsx")),
    navigation: { label: "operator", icon: <ShieldCheck /> },
  },
  ...operatorPages.map(([path, load]) => ({ path, access: "operator" as const, code: page(load) })),
  { path: "/sign-in", access: "visitor", code: page(() => import("./pages/auth/sign-in.tsx")) },
  { path: "/sign-up", access: "visitor", code: page(() => import("./pages/auth/sign-up.tsx")) },
  { path: "/forgotten-password", access: "visitor", code: page(() => import("./pages/auth/forgotten.tsx")) },
  {
    path: "/reset-password",
    access: "anyone",
    bare: true,
    code: page(async () => ({ default: (await import("./pages/auth/forgotten.tsx")).ResetPage })),
  },
  {
    path: "/join",
    access: "anyone",
    bare: true,
    code: page(async () => ({ default: (await import("./pages/auth/sign-up.tsx")).JoinPage })),
  },
  {
    path: "/prove-email",
    access: "customer",
    bare: true,
    code: page(async () => ({ default: (await import("./pages/auth/forgotten.tsx")).ProvePage })),
  },
]
