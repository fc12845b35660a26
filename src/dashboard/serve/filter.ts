/** Runs in a visitor's browser and makes `docs.ts`'s page better: entries are filtered by what is typed, and one that a link names is opened. */
const field = document.querySelector<HTMLElement>(".docs-filter")
const input = field?.querySelector("input")
const notice = document.querySelector(".docs-none")
const sections = [...document.querySelectorAll<HTMLElement>(".docs-groups > section")].map((section) => ({
  section,
  entries: [...section.querySelectorAll<HTMLElement>("details, .failure")].map((entry) => ({
    entry,
    text: (entry.querySelector("summary") ?? entry).textContent.toLowerCase(),
  })),
}))

function filter(): void {
  const words = (input?.value ?? "").toLowerCase().split(/\s+/)
  let found = 0
  for (const { section, entries } of sections) {
    let here = 0
    for (const { entry, text } of entries) {
      entry.hidden = !words.every((word) => text.includes(word))
      if (!entry.hidden) here++
    }
    section.hidden = here === 0
    found += here
  }
  if (notice !== null) notice.textContent = found === 0 ? (field?.dataset["none"] ?? "") : ""
}

/** What the address names. An end that cannot be decoded names nothing. */
function named(): Element | null {
  try {
    return document.querySelector(`[id="${CSS.escape(decodeURIComponent(location.hash.slice(1)))}"]`)
  } catch {
    return null
  }
}

function openNamed(): void {
  const entry = named()
  if (entry instanceof HTMLDetailsElement) entry.open = true
}

input?.addEventListener("input", filter)
// A link leads to where it says, whatever is filtered.
addEventListener("hashchange", () => {
  if (input) input.value = ""
  filter()
  openNamed()
  named()?.scrollIntoView()
})
// What the browser has kept since the last visit.
filter()
openNamed()
