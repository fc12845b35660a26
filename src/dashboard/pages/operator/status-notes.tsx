/** What visitors of `/status` are told in an operator's own words: the notes, and the dialogs that write, change and resolve one. */
import { queryOptions, useQuery } from "@tanstack/react-query"
import { useState } from "react"
import { api, unwrap } from "../../api/client.ts"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { FormDialog } from "../../components/dialog.tsx"
import { Field } from "../../components/form.tsx"
import { Card } from "../../components/layout.tsx"
import { Tag } from "../../components/values.tsx"
import { useFormat, texts, useLanguage } from "../../i18n/language.tsx"
import { ActDialog, useAction, useDraft } from "./act-dialog.tsx"
import { RoleButton } from "./frame.tsx"

const FOLLOW_MS = 10_000
const LONGEST = 1_000

export const statusNotesQuery = queryOptions({
  queryKey: ["operator", "status-notes"],
  queryFn: async () => (await unwrap(api.operator["status-notes"].get())).data,
  refetchInterval: FOLLOW_MS,
})
type Note = Awaited<ReturnType<NonNullable<(typeof statusNotesQuery)["queryFn"]>>>[number]

type Acting = { readonly act: "post" } | { readonly act: "change" | "resolve"; readonly note: Note }

export function StatusNotes() {
  const text = useStatusNotesText()
  const { data: notes, error, refetch } = useQuery(statusNotesQuery)
  const [acting, setActing] = useState<Acting>()
  const close = () => setActing(undefined)
  return (
    <Card
      title={text.title}
      flush
      action={
        <RoleButton role="support" size="small" onClick={() => setActing({ act: "post" })}>
          {text.post}
        </RoleButton>
      }
    >
      <DataTable
        caption={text.title}
        columns={useColumns(setActing)}
        rows={notes}
        error={error}
        retry={refetch}
        rowKey={({ id }) => id}
        empty={text.none}
      />
      {acting?.act === "post" && <NoteDialog note={undefined} onClose={close} />}
      {acting?.act === "change" && <NoteDialog note={acting.note} onClose={close} />}
      {acting?.act === "resolve" && (
        <ActDialog
          title={text.resolveTitle}
          act={text.resolve}
          done={text.resolved}
          run={() => unwrap(api.operator["status-notes"]({ note: acting.note.id }).patch({ resolved: true }))}
          onClose={close}
        >
          <p>{text.resolveText}</p>
        </ActDialog>
      )}
    </Card>
  )
}

function useColumns(onAct: (acting: Acting) => void): readonly Column<Note>[] {
  const text = useStatusNotesText()
  const format = useFormat()
  const { language } = useLanguage()
  const { columns: heads } = text
  return [
    { id: "text", head: heads.text, names: true, cell: ({ text: words }) => words[language] },
    { id: "since", head: heads.since, cell: ({ created_at: at }) => format.dateTime(at) },
    {
      id: "state",
      head: heads.state,
      cell: ({ resolved_at: at }) =>
        at === null ? <Tag tone="warn">{text.open}</Tag> : <Tag tone="good">{text.over(format.dateTime(at))}</Tag>,
    },
    {
      id: "acts",
      head: heads.acts,
      cell: (note) => (
        <span className="operator-refund-acts">
          <RoleButton role="support" size="small" onClick={() => onAct({ act: "change", note })}>
            {text.change}
          </RoleButton>
          {note.resolved_at === null && (
            <RoleButton role="support" size="small" onClick={() => onAct({ act: "resolve", note })}>
              {text.resolve}
            </RoleButton>
          )}
        </span>
      ),
    },
  ]
}

interface NoteDialogProps {
  /** Undefined for a new one. */
  readonly note: Note | undefined
  readonly onClose: () => void
}

function NoteDialog({ note, onClose }: NoteDialogProps) {
  const text = useStatusNotesText()
  const [was] = useState(note?.text)
  const { values, set, sent, send } = useDraft(was ?? { id: "", en: "" })
  const action = useAction({
    run: (words: Note["text"]) =>
      note === undefined
        ? unwrap(api.operator["status-notes"].post({ text: words }))
        : unwrap(api.operator["status-notes"]({ note: note.id }).patch({ text: words, ...(was && { was }) })),
    done: () => (note === undefined ? text.posted : text.changed),
    onClose,
  })
  const isMissing = (language: "id" | "en") => values[language].trim() === ""
  return (
    <FormDialog
      title={note === undefined ? text.postTitle : text.changeTitle}
      submit={note === undefined ? text.publish : text.save}
      busy={action.isPending}
      error={action.error}
      onSubmit={() => {
        send()
        if (!isMissing("id") && !isMissing("en")) action.mutate({ id: values.id, en: values.en })
      }}
      onClose={onClose}
    >
      <p>{text.postText}</p>
      {(["id", "en"] as const).map((language) => (
        <Field
          key={language}
          label={text.languages[language]}
          error={sent && isMissing(language) ? text.missing : undefined}
        >
          {(attributes) => (
            <span className="input">
              <textarea
                {...attributes}
                lang={language}
                rows={4}
                maxLength={LONGEST}
                value={values[language]}
                onChange={({ target }) => set({ [language]: target.value })}
              />
            </span>
          )}
        </Field>
      ))}
    </FormDialog>
  )
}

const useStatusNotesText = texts({
  id: {
    title: "Catatan di halaman status",
    none: "Belum ada catatan. Pengunjung hanya melihat keadaan setiap model.",
    columns: { text: "Catatan", since: "Sejak", state: "Status", acts: "Tindakan" },
    open: "Sedang ditangani",
    over: (when: string) => `Selesai ${when}`,
    post: "Tulis catatan",
    postTitle: "Catatan di halaman status",
    postText: "Siapa saja dapat membacanya di /status, dalam bahasanya, beberapa detik lagi.",
    publish: "Tayangkan",
    posted: "Catatan tayang di halaman status.",
    change: "Ubah",
    changeTitle: "Ubah catatan",
    save: "Simpan",
    changed: "Catatan diubah.",
    resolve: "Selesai",
    resolveTitle: "Gangguan sudah selesai?",
    resolveText: "Catatan ini pindah ke bawah halaman status, dan hilang setelah tujuh hari.",
    resolved: "Catatan dinyatakan selesai.",
    languages: { id: "Bahasa Indonesia", en: "Bahasa Inggris" },
    missing: "Tulis dalam kedua bahasa.",
  },
  en: {
    title: "Notes on the status page",
    none: "No notes. Visitors see the state of each model alone.",
    columns: { text: "Note", since: "Since", state: "Status", acts: "Actions" },
    open: "Being worked on",
    over: (when: string) => `Resolved ${when}`,
    post: "Write a note",
    postTitle: "A note on the status page",
    postText: "Anybody can read it at /status, in their language, in a few seconds.",
    publish: "Publish",
    posted: "The note is on the status page.",
    change: "Change",
    changeTitle: "Change the note",
    save: "Save",
    changed: "The note is changed.",
    resolve: "Resolve",
    resolveTitle: "Is it over?",
    resolveText: "The note goes to the end of the status page, and away after seven days.",
    resolved: "The note is resolved.",
    languages: { id: "Indonesian", en: "English" },
    missing: "Write it in both languages.",
  },
})
