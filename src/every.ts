/** Again and again with a pause between, never two at once. Stopping waits for the one under way. Milliseconds. */
export function every(pauseMs: number, work: () => Promise<void>, atOnce = false): { stop(): Promise<void> } {
  let current = Promise.resolve()
  let timer: ReturnType<typeof setTimeout> | undefined
  let over = false
  const later = () => {
    if (over) return
    timer = setTimeout(() => {
      current = work().then(later)
    }, pauseMs)
  }
  if (atOnce) current = work().then(later)
  else later()
  return {
    async stop() {
      over = true
      clearTimeout(timer)
      await current
    },
  }
}
