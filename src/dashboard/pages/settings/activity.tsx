/** What was done to the account, the newest first, and in which words. */
import { useInfiniteQuery } from "@tanstack/react-query"
import { Download } from "lucide-react"
import { api, unwrap } from "../../api/client.ts"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { Card, DownloadLink } from "../../components/layout.tsx"
import { useFormat, texts } from "../../i18n/language.tsx"
import { deviceOf } from "../../api/browser.ts"

const ROWS = 20

const activityPage = (cursor: string | undefined) =>
  unwrap(api.account.activity.get({ query: { limit: ROWS, ...(cursor !== undefined && { cursor }) } }))
type Entry = Awaited<ReturnType<typeof activityPage>>["data"][number]

export function Activity() {
  const text = useActivityText()
  const format = useFormat()
  const details = useDetails()
  const list = useInfiniteQuery({
    queryKey: ["activity"],
    queryFn: ({ pageParam }) => activityPage(pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  })
  const columns: Column<Entry>[] = [
    {
      id: "what",
      head: text.what,
      names: true,
      cell: ({ action }) => text.actions[action as keyof typeof text.actions] ?? <code>{action}</code>,
    },
    { id: "details", head: text.details, cell: (entry) => <span className="settings-detail">{details(entry)}</span> },
    { id: "who", head: text.who, cell: ({ actor, member }) => member?.email ?? text.actors[actor] },
    { id: "when", head: text.when, cell: ({ at }) => format.moment(at) },
  ]
  return (
    <Card
      title={text.title}
      flush
      action={
        <DownloadLink size="small" icon={<Download />} href="/account/activity/export.csv">
          {text.download}
        </DownloadLink>
      }
    >
      <DataTable
        caption={text.title}
        columns={columns}
        rows={list.data?.pages.flatMap(({ data }) => data)}
        rowKey={({ id }) => String(id)}
        error={list.error}
        retry={list.refetch}
        empty={text.none}
        more={list.hasNextPage ? { load: () => void list.fetchNextPage(), busy: list.isFetching } : undefined}
      />
    </Card>
  )
}

/** What it belongs to, and not what differs. */
const isOf = new Set(["parent", "token", "key_id"])

/** Whose name it was, from where, and which settings differ. */
function useDetails(): (entry: Entry) => string {
  const text = useActivityText()
  const format = useFormat()
  const fieldName = (field: unknown) => text.fields[String(field) as keyof typeof text.fields] ?? String(field)
  return ({ name, address, user_agent: userAgent, after, more }) => {
    const fields = after === null ? [] : Object.entries(after as Readonly<Record<string, unknown>>)
    const known = new Map(fields)
    const { browser, system } = deviceOf(userAgent ?? "")
    const listed = known.get("fields")
    const amount = known.get("amount_micro")
    const until = known.get("until")
    const isOwn = known.has("second_factor") || amount !== undefined || until !== undefined
    const changed = Array.isArray(listed) ? listed : fields.map(([field]) => field).filter((field) => !isOf.has(field))
    const says = [
      name,
      address === "" ? null : address,
      [browser, system].filter((part) => part !== undefined).join(", "),
      known.get("second_factor") === true ? text.factor : null,
      typeof amount === "number" ? format.rupiah(BigInt(amount)) : null,
      typeof until === "string" ? text.until(format.moment(until)) : null,
      changed.length === 0 || isOwn ? null : text.changed(changed.map(fieldName).join(", ")),
      more === 0 ? null : text.more(format.number(more)),
    ]
    return says.filter((part) => part !== null && part !== "").join(" · ") || "–"
  }
}

const useActivityText = texts({
  id: {
    title: "Riwayat akun",
    download: "Unduh CSV",
    when: "Waktu",
    what: "Apa",
    who: "Oleh",
    details: "Rincian",
    actors: {
      owner: "Pemilik akun",
      member: "Anggota",
      operator: "Operator",
      gateway: "Loket",
      token: "Token pengelola",
    },
    more: (count: string) => `dan ${count} kali lagi hari itu`,
    changed: (names: string) => `Berubah: ${names}`,
    until: (time: string) => `sampai ${time}`,
    none: "Belum ada riwayat.",
    factor: "dengan langkah kedua",
    fields: {
      name: "nama",
      role: "peran",
      requests_per_minute: "permintaan per menit",
      tokens_per_minute: "token per menit",
      spending_limit_micro: "batas pengeluaran",
      spending_period: "periode batas",
      fallback: "model pengganti",
      shows_balance: "boleh melihat saldo",
      replays_retries: "kirim ulang oleh SDK",
      expires_at: "masa berlaku",
      models: "model",
      endpoints: "format panggilan",
      networks: "jaringan",
      origins: "halaman web",
      max_rate_micro: "tarif tertinggi",
      breaker_ceiling_micro: "batas sepuluh menit",
      breaker_factor: "peringatan di atas kebiasaan",
      breaker_stops: "berhenti di batas sepuluh menit",
      breaker_pause_minutes: "lama jeda",
      email: "alamat e-mail",
      time_zone: "zona waktu",
      low_balance_email: "alamat peringatan",
      low_balance_threshold_micro: "batas saldo",
      budget_mails: "peringatan anggaran",
      buyer_name: "nama pembeli",
      buyer_address: "alamat pembeli",
      buyer_npwp: "NPWP pembeli",
    },
    actions: {
      "account.created": "Akun dibuat",
      "account.changed": "Pengaturan diubah",
      "account.deleted": "Akun dihapus",
      "account.frozen": "Akun dibekukan",
      "account.unfrozen": "Pembekuan dibuka",
      "account.paused": "Semua kunci dijeda",
      "account.resumed": "Semua kunci dilanjutkan",
      "account.role": "Peran diubah",
      "account.adjusted": "Saldo disesuaikan",
      "trial.credited": "Kredit percobaan diberikan",
      "account.password_link": "Tautan kata sandi dibuat",
      "account.second_factor_reset": "Verifikasi dua langkah dicabut",
      "account.see_as": "Dasbor dilihat, hanya baca",
      "account.see_as_ended": "Selesai melihat dasbor",
      "list.exported": "Data akun diunduh sebagai CSV",
      "breaker.changed": "Batas sepuluh menit akun diubah",
      "child_key.created": "Kunci anak dibuat",
      "child_key.changed": "Kunci anak diubah",
      "child_key.revoked": "Kunci anak dicabut",
      "management_token.created": "Token pengelola dibuat",
      "management_token.revoked": "Token pengelola dicabut",
      "email.changed": "Alamat e-mail diganti",
      "email.proved": "Alamat e-mail dikonfirmasi",
      "key.created": "Kunci dibuat",
      "key.changed": "Kunci diubah",
      "key.paused": "Kunci dijeda di batas sepuluh menit",
      "key.resumed": "Kunci dilanjutkan",
      "key.rotated": "Kunci dirotasi",
      "key.revoked": "Kunci dicabut",
      "member.invited": "Anggota diundang",
      "member.invitation_revoked": "Undangan ditarik kembali",
      "member.joined": "Anggota bergabung",
      "member.left": "Anggota keluar",
      "member.removed": "Anggota dikeluarkan",
      "member.role": "Peran anggota diubah",
      "membership.ended": "Keanggotaan di akun lain berakhir",
      "membership.joined": "Bergabung dengan akun lain",
      "passkey.added": "Passkey ditambahkan",
      "passkey.removed": "Passkey dihapus",
      "password.changed": "Kata sandi diganti",
      "refund.booked": "Pengembalian dana dicatat",
      "refund.cancelled": "Pengembalian dana dibatalkan",
      "refund.paid_out": "Pengembalian dana dibayar",
      "refund.sending": "Pengembalian dana dikirim",
      "second_factor.added": "Verifikasi dua langkah dipasang",
      "second_factor.removed": "Verifikasi dua langkah dilepas",
      "session.started": "Masuk",
      "webhook.removed": "Webhook dihapus",
      "webhook.rotated": "Rahasia webhook diganti",
      "webhook.set": "Webhook dipasang",
    },
  },
  en: {
    title: "Account history",
    download: "Download CSV",
    when: "Time",
    what: "What",
    who: "By",
    details: "Details",
    actors: {
      owner: "Account's owner",
      member: "Member",
      operator: "Operator",
      gateway: "Loket",
      token: "A management token",
    },
    more: (count: string) => `and ${count} more ${count === "1" ? "time" : "times"} that day`,
    changed: (names: string) => `Changed: ${names}`,
    until: (time: string) => `until ${time}`,
    none: "No history yet.",
    factor: "with a second step",
    fields: {
      name: "name",
      role: "role",
      requests_per_minute: "requests per minute",
      tokens_per_minute: "tokens per minute",
      spending_limit_micro: "spending limit",
      spending_period: "period of the limit",
      fallback: "fallback model",
      shows_balance: "may see the balance",
      replays_retries: "retries of SDKs",
      expires_at: "expiry",
      models: "models",
      endpoints: "call formats",
      networks: "networks",
      origins: "web pages",
      max_rate_micro: "highest rate",
      breaker_ceiling_micro: "limit of ten minutes",
      breaker_factor: "warning above the usual",
      breaker_stops: "stop at the limit of ten minutes",
      breaker_pause_minutes: "length of a pause",
      email: "e-mail address",
      time_zone: "time zone",
      low_balance_email: "address for alerts",
      low_balance_threshold_micro: "balance to warn at",
      budget_mails: "budget alerts",
      buyer_name: "buyer's name",
      buyer_address: "buyer's address",
      buyer_npwp: "buyer's tax number",
    },
    actions: {
      "account.created": "Account created",
      "account.changed": "Settings changed",
      "account.deleted": "Account deleted",
      "account.frozen": "Account frozen",
      "account.unfrozen": "Account unfrozen",
      "account.paused": "All keys paused",
      "account.resumed": "All keys resumed",
      "account.role": "Role changed",
      "account.adjusted": "Balance adjusted",
      "trial.credited": "Trial credit given",
      "account.password_link": "Password link made",
      "account.second_factor_reset": "Two-step verification reset",
      "account.see_as": "Dashboard looked at, read only",
      "account.see_as_ended": "Looking at the dashboard ended",
      "list.exported": "Account's data downloaded as CSV",
      "breaker.changed": "Account's limit of ten minutes changed",
      "child_key.created": "Child key created",
      "child_key.changed": "Child key changed",
      "child_key.revoked": "Child key revoked",
      "management_token.created": "Management token created",
      "management_token.revoked": "Management token revoked",
      "email.changed": "E-mail address changed",
      "email.proved": "E-mail address proved",
      "key.created": "Key created",
      "key.changed": "Key changed",
      "key.paused": "Key paused at its limit of ten minutes",
      "key.resumed": "Key resumed",
      "key.rotated": "Key rotated",
      "key.revoked": "Key revoked",
      "member.invited": "Member invited",
      "member.invitation_revoked": "Invitation taken back",
      "member.joined": "Member joined",
      "member.left": "Member left",
      "member.removed": "Member removed",
      "member.role": "Member's role changed",
      "membership.ended": "Membership in another account ended",
      "membership.joined": "Joined another account",
      "passkey.added": "Passkey added",
      "passkey.removed": "Passkey removed",
      "password.changed": "Password changed",
      "refund.booked": "Refund booked",
      "refund.cancelled": "Refund cancelled",
      "refund.paid_out": "Refund paid out",
      "refund.sending": "Refund being sent",
      "second_factor.added": "Two-step verification set up",
      "second_factor.removed": "Two-step verification removed",
      "session.started": "Signed in",
      "webhook.removed": "Webhook removed",
      "webhook.rotated": "Webhook secret changed",
      "webhook.set": "Webhook set",
    },
  },
})
