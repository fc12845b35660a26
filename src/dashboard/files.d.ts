declare module "*.woff2" {
  /** Its address. */
  const url: string
  export default url
}
