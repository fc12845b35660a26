/**
 * Runs in a visitor's browser and makes `front.ts`'s page better: sums follow the numbers as they are typed, the example can be
 * copied, and addresses are those that the browser knows (a proxy before the gateway may speak https where the gateway does not).
 */
import { formatRupiah } from "../i18n/figures.ts"
import { MONTH_DAYS } from "../pages/models/choose.ts"

const form = document.querySelector<HTMLFormElement>("form[data-language]")
const cells = [...document.querySelectorAll<HTMLTableCellElement>("td[data-rates]")]

function calculate(): void {
  if (form === null) return
  // What cannot be read has no sum: that of the numbers before would be taken for it.
  if (!form.checkValidity()) {
    for (const cell of cells) cell.textContent = "–"
    return
  }
  const numberOf = (name: string) =>
    BigInt(form.querySelector<HTMLInputElement>(`[name=${name}]`)?.value.replaceAll(/\D/g, "") ?? 0)
  const [input, output, calls] = [numberOf("input"), numberOf("output"), numberOf("calls")]
  const language = form.dataset["language"] === "en" ? "en" : "id"
  for (const cell of cells) {
    const [inputMicro = 0n, outputMicro = 0n] = (cell.dataset["rates"] ?? "").split(" ").map(BigInt)
    const month = (input * inputMicro + output * outputMicro) * calls * MONTH_DAYS
    cell.textContent = formatRupiah(month, language, "whole")
  }
}

form?.addEventListener("input", calculate)
form?.addEventListener("submit", (event) => {
  event.preventDefault()
  calculate()
})
// Numbers that the browser has kept since the last visit.
calculate()

for (const place of document.querySelectorAll("[data-base]")) {
  if (place.textContent?.replace(/^http:/, "https:") === location.origin) place.textContent = location.origin
}

// Over http from elsewhere there is no clipboard.
const copied = isSecureContext ? document.querySelectorAll<HTMLElement>("[data-copy]") : []
for (const example of copied) {
  const button = document.createElement("button")
  const label = example.dataset["copy"] ?? ""
  const text = example.querySelector("pre")?.textContent ?? ""
  Object.assign(button, { type: "button", className: "button button-secondary button-small", textContent: label })
  const copy = async () => {
    await navigator.clipboard.writeText(text)
    button.textContent = example.dataset["copied"] ?? label
    setTimeout(() => (button.textContent = label), 2_000)
  }
  button.addEventListener("click", () => void copy())
  // It lies over the example, so nothing moves.
  example.append(button)
}
