/**
 * Texts of different kinds with what o200k_base counts in them (gpt-tokenizer 4.0.0). The estimator's prices were fitted
 * to other texts.
 */
const base64 = (bytes: number): string =>
  Buffer.from(Array.from({ length: bytes }, (_, at) => (at * at * 31 + at * 17 + (at >> 3) * 101) & 0xff)).toString(
    "base64",
  )

const usage = Array.from({ length: 20 }, (_, at) => ({
  request_id: `req_0${at}kTz${at * 7919}`,
  model: at % 2 ? "claude-sonnet" : "gpt-mini",
  input_tokens: at * 1237,
  charge_micro: at * 88213,
  status: at % 5 ? "ok" : "upstream_error",
  cached: at % 3 === 0,
}))

export const samples: Readonly<Record<string, { readonly text: string; readonly tokens: number }>> = {
  "English prose": {
    tokens: 102,
    text: "When my grandmother sold the orchard she kept a single tree, the crooked one beside the well, because nobody else wanted it. Every autumn it gave more apples than the rest together, small and sour and full of wasps, and every autumn she made the same cider from them and complained about the taste. Visitors were handed a glass before they could sit down. She said that a person who can finish the glass without making a face is either very polite or a liar, and that both are useful to know.",
  },
  "technical English": {
    tokens: 107,
    text: "The scheduler keeps one queue per key and serves them in turn, so a client with a thousand pending calls cannot starve a client with one. A slot is released when the backend's stream has ended, not when the client disconnects; otherwise a disconnecting client could exceed the concurrency limit. If the queue is full, the call is refused with a 429 and a Retry-After header of one second.\n\n- `MAX_CONCURRENCY` bounds the gateway as a whole.\n- `max_concurrency` bounds one model.\n",
  },
  Indonesian: {
    tokens: 127,
    text: "Setiap pagi Bu Sari membuka warungnya sebelum matahari terbit. Ia menata gorengan di atas nampan, merebus air untuk kopi, lalu menyapu halaman yang dipenuhi daun mangga. Pelanggan pertamanya biasanya tukang becak dan penjaga malam yang baru selesai bertugas. Mereka duduk berdesakan di bangku panjang, membicarakan harga beras, pertandingan sepak bola, dan anak-anak yang merantau ke kota. Menjelang siang warung itu kembali sepi, dan Bu Sari menghitung uang sambil mendengarkan radio tua peninggalan suaminya.",
  },
  "Indonesian instructions": {
    tokens: 70,
    text: "Buatkan ringkasan laporan keuangan berikut dalam tiga paragraf. Sebutkan pendapatan, pengeluaran terbesar, serta perubahan dibandingkan kuartal sebelumnya. Gunakan bahasa yang mudah dimengerti oleh pemilik usaha kecil, hindari istilah akuntansi, dan tambahkan dua saran yang dapat langsung diterapkan bulan depan.",
  },
  Chinese: {
    tokens: 125,
    text: "春天的早晨，山谷里飘着薄薄的雾。老张背着竹篓沿着石阶往上走，一边走一边数路边新开的茶花。他说今年的雨水比往年多，茶叶长得慢，但是味道会更好。到了山顶，他把茶叶摊在竹席上晾晒，然后坐下来点一支烟，看着远处的村子慢慢醒来。请把下面的函数改写成异步版本，并说明为什么原来的实现会阻塞主线程。",
  },
  Japanese: {
    tokens: 87,
    text: "駅前の小さな本屋は、雨の日になると急に混み始める。傘を持たない人たちが入口で立ち止まり、雑誌をめくりながら空を見上げる。店主は何も言わずにお茶を淹れて、濡れた子どもたちにタオルを渡す。",
  },
  Russian: {
    tokens: 79,
    text: "Поезд остановился посреди степи, и пассажиры вышли на насыпь, чтобы размять ноги. Никто не знал, сколько придётся ждать. Проводница раздавала чай, дети собирали камешки, а старик в углу вагона читал вслух письмо от внука, который служил далеко на севере.",
  },
  TypeScript: {
    tokens: 152,
    text: `export class Window {
  readonly #buckets = new Uint32Array(60)
  #newest = 0

  count(nowMs: number): number {
    this.#advance(Math.floor(nowMs / 1000))
    return this.#buckets.reduce((sum, bucket) => sum + bucket, 0)
  }

  #advance(second: number): void {
    const gap = Math.min(second - this.#newest, this.#buckets.length)
    for (let i = 1; i <= gap; i++) this.#buckets[(this.#newest + i) % 60] = 0
    if (second > this.#newest) this.#newest = second
  }
}
`,
  },
  Python: {
    tokens: 135,
    text: `def merge_sorted(left: list[int], right: list[int]) -> list[int]:
    """Merge two sorted lists into one."""
    result, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            result.append(left[i])
            i += 1
        else:
            result.append(right[j])
            j += 1
    return result + left[i:] + right[j:]


if __name__ == "__main__":
    print(merge_sorted([1, 4, 9], [2, 3, 10, 12]))
`,
  },
  SQL: {
    tokens: 77,
    text: "UPDATE accounts SET leased = leased + $1 WHERE id = $2 AND posted - leased >= $1 RETURNING leased, epoch;\nSELECT date_trunc('day', created_at) AS day, sum(charge_micro)::bigint AS charged FROM usage_records WHERE account_id = $1 AND status = 'ok' GROUP BY 1 ORDER BY 1 DESC LIMIT 30;\n",
  },
  JSON: { tokens: 785, text: JSON.stringify(usage) },
  "indented JSON": { tokens: 1205, text: JSON.stringify(usage, null, 2) },
  base64: { tokens: 813, text: base64(900) },
  hexadecimal: { tokens: 381, text: Buffer.from(base64(300)).toString("hex") },
  "a log": {
    tokens: 574,
    text: Array.from(
      { length: 12 },
      (_, at) =>
        `2026-11-20T23:0${at % 10}:1${at % 9}.${100 + at * 37}Z INFO  [worker-${at % 4}] GET /v1/models 200 ${at * 3 + 2}ms bytes=${at * 911} id=7f3a${at}c-b2e\n`,
    ).join(""),
  },
}
