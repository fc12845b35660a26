/** The page's fonts, from its own files. Not in the style sheet: the bundler would put them into it as data. */
import mono from "@fontsource-variable/geist-mono/files/geist-mono-latin-wght-normal.woff2" with { type: "file" }
import sans from "@fontsource-variable/geist/files/geist-latin-wght-normal.woff2" with { type: "file" }

export function addFonts(): void {
  const look: FontFaceDescriptors = { weight: "100 900", display: "swap" }
  for (const [name, file] of [
    ["Geist", sans],
    ["Geist Mono", mono],
  ] as const) {
    document.fonts.add(new FontFace(name, `url("${file}")`, look))
  }
}
