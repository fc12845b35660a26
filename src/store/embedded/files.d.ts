/** Files that `with { type: "file" }` turns into a path, and that a compiled binary carries inside. */
declare module "*.wasm" {
  const path: string
  export default path
}
declare module "*.data" {
  const path: string
  export default path
}
