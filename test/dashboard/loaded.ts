/** Loads a module of the page outside of a browser: the page's client reads the browser's address when it is loaded. */
export async function loaded<M>(load: () => Promise<M>): Promise<M> {
  Object.defineProperty(globalThis, "location", { value: new URL("http://localhost/dashboard"), configurable: true })
  try {
    return await load()
  } finally {
    Reflect.deleteProperty(globalThis, "location")
  }
}
