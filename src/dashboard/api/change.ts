/** The one way in which a page changes something. Queries stand beside their pages. */
import { useMutation, type UseMutationOptions, type UseMutationResult } from "@tanstack/react-query"
import { useCallback, useRef } from "react"

/** What a success brings, such as the next dialog, has been drawn by then. Milliseconds. */
const DRAWN_MS = 100

/**
 * A mutation that is carried out once for each press: a further one in the same turn, before the button could be drawn busy, or
 * while the work is under way, is the same press, and so is one with the same input right after a success.
 */
export function useChange<Output, Input = void>(
  options: UseMutationOptions<Output, Error, Input> & { readonly mutationFn: (input: Input) => Promise<Output> },
): UseMutationResult<Output, Error, Input> {
  const isUnderWay = useRef(false)
  const done = useRef<{ readonly input: string; readonly at: number }>(undefined)
  const mutation = useMutation<Output, Error, Input>({
    ...options,
    onSettled: (_, error, input) => {
      isUnderWay.current = false
      if (error === null) done.current = { input: written(input), at: performance.now() }
    },
  })
  const { mutate: send } = mutation
  const mutate = useCallback<typeof send>(
    (...press) => {
      const { input, at } = done.current ?? { input: undefined, at: -Infinity }
      const isJustDone = performance.now() - at < DRAWN_MS && written(press[0]) === input
      if (isUnderWay.current || isJustDone) return
      isUnderWay.current = true
      send(...press)
    },
    [send],
  )
  return { ...mutation, mutate }
}

const written = (input: unknown): string => JSON.stringify(input) ?? ""
