/** Files that are imported, and what an import of one is: an address, a text, or the path of a file that a compiled binary carries inside. */
declare module "*.woff2" {
  /** Its address. */
  const url: string
  export default url
}
declare module "*.md" {
  const text: string
  export default text
}
/** `with { type: "file" }` turns it into a path. */
declare module "*.wasm" {
  const path: string
  export default path
}
/** `with { type: "file" }` turns it into a path. */
declare module "*.data" {
  const path: string
  export default path
}
/** SQL files, imported `with { type: "text" }`. */
declare module "*.sql" {
  const text: string
  export default text
}
