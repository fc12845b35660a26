import { texts } from "../../i18n/language.tsx"

export const useQuickStartText = texts({
  id: {
    title: "Mulai cepat",
    intro: "Arahkan SDK atau agen Anda ke Loket. Semua pengaturan di bawah sudah dicoba.",
    address: "Alamat dasar Anda",
    addressHint: "Klien format chat dan responses memakai alamat dengan /v1, klien format messages tanpa /v1.",
    key: "Kunci Anda",
    keyHint: "Ganti <API_KEY> dengan kunci Anda. Kunci hanya ditampilkan satu kali, ketika dibuat.",
    noKey: "Anda belum punya kunci yang aktif.",
    makeKey: "Buat kunci API",
    client: "Klien",
    model: "Model",
    terminal: "Terminal",
    noModel: "Tidak ada model yang dilayani dalam format ini.",
    afterwards: "Setelah panggilan pertama",
    afterwardsText:
      "Panggilan Anda muncul di Beranda begitu selesai, beserta biayanya. Biaya juga ada di kepala X-Cost-Rp jawaban yang tidak di-stream.",
    notes: {
      curl: "",
      openai: "Untuk format responses, alamat dan kuncinya sama.",
      anthropic: "Tanpa /v1 di alamatnya.",
      claudeCode:
        "Semua model dengan format messages dapat dipakai. Beri tahu ukuran konteks model yang tidak dikenalnya lewat CLAUDE_CODE_MAX_CONTEXT_TOKENS.",
      codex:
        'Codex meminta pencarian web pada setiap panggilan. Untuk model yang tidak melayaninya, tulis web_search = "disabled" di baris pertama berkas.',
      openCode: "Beri batas pengeluaran pada kuncinya: percakapan yang tidak muat lagi dicobanya terus-menerus.",
      qwenCode: "Memerlukan Node.js 22 atau lebih baru.",
    },
  },
  en: {
    title: "Quick start",
    intro: "Point your SDK or agent at Loket. Every set-up below was tried.",
    address: "Your base address",
    addressHint: "Clients of the chat and responses formats use it with /v1, clients of the messages format without.",
    key: "Your key",
    keyHint: "Put your key in the place of <API_KEY>. A key is shown only once, when it is created.",
    noKey: "You have no active key yet.",
    makeKey: "Create an API key",
    client: "Client",
    model: "Model",
    terminal: "Terminal",
    noModel: "No model is served in this format.",
    afterwards: "After your first call",
    afterwardsText:
      "Your call shows up on Home as soon as it has ended, with its cost. The cost is also in the X-Cost-Rp header of answers that are not streamed.",
    notes: {
      curl: "",
      openai: "For the responses format the address and the key are the same.",
      anthropic: "No /v1 in the address.",
      claudeCode:
        "Any model that is served in the messages format will do. Of one that it does not know, tell it the size of the context in CLAUDE_CODE_MAX_CONTEXT_TOKENS.",
      codex:
        'Codex asks for web search with each call. For a model that does not serve it, put web_search = "disabled" in the first line of the file.',
      openCode: "Give its key a spending limit: a conversation that no longer fits is tried again and again.",
      qwenCode: "Needs Node.js 22 or newer.",
    },
  },
})

export type QuickStartText = ReturnType<typeof useQuickStartText>
