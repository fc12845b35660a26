/** Seconds that run out. */
import { useEffect, useState } from "react"

/** What is left of `seconds` that were told at `toldAt` (milliseconds of this clock): the server's clock need not be this one. */
export function useCountdown(seconds: number, toldAt: number, over: () => void): number {
  const until = toldAt + seconds * 1_000
  const [now, setNow] = useState(() => Date.now())
  const left = Math.max(0, Math.ceil((until - now) / 1_000))
  const isOver = left === 0
  useEffect(() => {
    if (isOver) return undefined
    const ticking = setInterval(() => setNow(Date.now()), 1_000)
    return () => clearInterval(ticking)
  }, [isOver])
  useEffect(() => {
    if (isOver) over()
    // Once when it is over, whatever the function is by then.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [isOver])
  return left
}

/** 14:05. */
export const minutesAndSeconds = (seconds: number): string =>
  `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`
