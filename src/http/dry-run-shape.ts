/** The schema of a dry run's answer. */
import { type Static, Type } from "@sinclair/typebox"
import { errorBody } from "./edge.ts"
import { described, field, flag, integer, micro, oneOf, orNull, text, time } from "./shapes.ts"

const rupiah = described(
  text,
  field(
    "The same in Rupiah, a decimal number as in `X-Cost-Rp`.",
    "Yang sama dalam rupiah, bilangan desimal seperti di `X-Cost-Rp`.",
  ),
)
const window = orNull(
  Type.Object({
    limit: integer,
    remaining: described(
      integer,
      field("Of what the process that answers may admit.", "Dari yang boleh diterima proses yang menjawab."),
    ),
    resets_in_s: described(integer, field("Until the window is empty.", "Sampai jendelanya kosong.")),
  }),
)

export const dryRunSchema = Type.Object(
  {
    object: Type.Literal("dry_run"),
    request_id: text,
    refused_by: orNull(
      Type.Intersect([
        errorBody,
        Type.Object({
          status: integer,
          retry_after_s: described(
            orNull(integer),
            field("Null where no wait is known to help.", "Null jika tidak diketahui apakah menunggu membantu."),
          ),
        }),
      ]),
      field(
        "The first error that would refuse the call; null where none would.",
        "Kesalahan pertama yang akan menolak panggilan; null jika tidak ada.",
      ),
    ),
    model: orNull(text, field("As the body names it.", "Seperti yang disebut badan permintaan.")),
    answered_by: orNull(
      text,
      field(
        "The model that would be asked first: another one where the prompt is too long for the named.",
        "Model yang akan dipanggil pertama: model lain jika prompt terlalu panjang untuk yang disebut.",
      ),
    ),
    may_be_answered_by: described(
      Type.Array(text),
      field(
        "Models that may answer in its place where it throttles, or finds the prompt too long, in order.",
        "Model yang boleh menjawab sebagai gantinya jika ia membatasi, atau menganggap prompt terlalu panjang, menurut urutan.",
      ),
    ),
    cost: orNull(
      Type.Object({
        input_tokens: described(integer, field("As they are estimated.", "Menurut perkiraan.")),
        most_input_tokens: described(
          integer,
          field(
            "What they may come to, where files are among them.",
            "Kemungkinan tertingginya, jika ada berkas di dalamnya.",
          ),
        ),
        output_token_limit: described(
          integer,
          field(
            "The answer limit that would be forwarded, for each answer asked for.",
            "Batas panjang jawaban yang akan diteruskan, untuk setiap jawaban yang diminta.",
          ),
        ),
        least_micro: described(
          micro,
          field(
            "What has to be available: the input and a minimal answer.",
            "Yang harus tersedia: masukan dan jawaban terpendek.",
          ),
        ),
        hold_micro: orNull(
          micro,
          field("What would be held; null where there is not enough.", "Yang akan ditahan; null jika tidak cukup."),
        ),
        hold_rp: orNull(rupiah),
        most_micro: described(
          micro,
          field(
            "The most that the call could cost by the estimate of its input, whichever of the models answers: input that a backend counts beyond the estimate is charged too, as long as there is balance and budget for it. Where there is not enough, as if there were.",
            "Biaya tertinggi panggilan menurut perkiraan masukannya, model mana pun yang menjawab: masukan yang dihitung backend melebihi perkiraan juga dibayar, selama saldo dan anggarannya ada. Jika tidak cukup, seolah-olah cukup.",
          ),
        ),
        most_rp: rupiah,
      }),
      field(
        "Null where the call would be refused before it is known.",
        "Null jika panggilan akan ditolak sebelum ini diketahui.",
      ),
    ),
    limits: Type.Object({
      requests: window,
      tokens: window,
      budget: orNull(
        Type.Object({
          period: oneOf(["daily", "monthly", "total"]),
          limit_micro: micro,
          remaining_micro: micro,
          resets_in_s: orNull(integer),
        }),
      ),
      run: Type.Optional(
        described(
          Type.Object({
            status: oneOf(
              ["new", "open", "ended"],
              field("`new`: the call would make it.", "`new`: panggilan ini akan membuatnya."),
            ),
            limit_micro: micro,
            remaining_micro: micro,
            ends_at: orNull(time, field("Null of a new one.", "Null untuk yang baru.")),
          }),
          field(
            "Of a call with an `X-Run-Id`, if there is such a run or it would be made.",
            "Untuk panggilan dengan `X-Run-Id`, jika run itu ada atau akan dibuat.",
          ),
        ),
      ),
      ten_minutes: Type.Optional(
        described(
          Type.Array(
            Type.Object({
              of: oneOf(["key", "account"]),
              ceiling_micro: micro,
              spent_micro: described(
                micro,
                field("What counts of the last ten minutes.", "Yang dihitung dari sepuluh menit terakhir."),
              ),
              held_micro: described(micro, field("By calls under way.", "Oleh panggilan yang sedang berjalan.")),
              remaining_micro: described(
                micro,
                field("A call that needs more is refused.", "Panggilan yang memerlukan lebih ditolak."),
              ),
              resets_in_s: described(
                integer,
                field(
                  "Until nothing of what was spent counts any more.",
                  "Sampai pengeluaran itu tidak dihitung lagi.",
                ),
              ),
            }),
          ),
          field(
            "The ceilings that stop, of the key and of its account, where they are known. A call for which too little is left of one pauses the key: 403 `quota.key_paused`.",
            "Batas yang menghentikan, milik kunci dan akunnya, jika diketahui. Panggilan yang melebihi sisanya menjeda kunci: 403 `quota.key_paused`.",
          ),
        ),
      ),
      paused: Type.Optional(
        described(
          Type.Object({
            until: orNull(time, field("Null until its owner resumes it.", "Null sampai pemiliknya melanjutkannya.")),
          }),
          field(
            "Of a key that has come to such a ceiling, or whose account has.",
            "Untuk kunci yang mencapai batas itu, atau yang akunnya mencapainya.",
          ),
        ),
      ),
      balance: orNull(
        Type.Object({ balance_micro: micro, held_micro: micro, available_micro: micro }),
        field("Null for a key whose account is closed to it.", "Null untuk kunci yang tidak boleh melihat akunnya."),
      ),
      model: orNull(
        Type.Object({
          concurrency: described(
            integer,
            field(
              "Calls at once, of all accounts, at the process that answers.",
              "Panggilan serentak, dari semua akun, di proses yang menjawab.",
            ),
          ),
          free: integer,
          waiting: integer,
          would_wait: described(
            flag,
            field("For a slot, before it is forwarded.", "Menunggu tempat, sebelum diteruskan."),
          ),
        }),
      ),
      dry_runs: Type.Object({ limit: integer, remaining: integer, resets_in_s: integer }),
    }),
  },
  { $id: "DryRun" },
)

export type DryRun = Static<typeof dryRunSchema>
