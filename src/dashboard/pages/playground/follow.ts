/** The page follows an answer to its end while somebody reads there, and stays where it is when they have scrolled back. */
import { useEffect, useRef } from "react"

/** Pixels from the end within which somebody still counts as being there. */
const NEAR = 160

const distance = () => document.documentElement.scrollHeight - scrollY - innerHeight

/** `grown` changes whenever there is more; `begun` when there is something new that should be in sight. */
export function useFollow(grown: unknown, begun: unknown): void {
  const there = useRef(true)
  useEffect(() => {
    const look = () => {
      there.current = distance() < NEAR
    }
    addEventListener("scroll", look, { passive: true })
    return () => removeEventListener("scroll", look)
  }, [])
  useEffect(() => {
    there.current = true
  }, [begun])
  useEffect(() => {
    if (there.current) scrollTo(0, document.documentElement.scrollHeight)
  }, [grown])
}
