/** The one way in which a page changes something. Queries stand beside their pages. */
import { useMutation, type UseMutationOptions, type UseMutationResult } from "@tanstack/react-query"
import { useCallback, useRef } from "react"

/** What a success brings, such as the next dialog, has been drawn by then. */
const DRAWN_MS = 100

/**
 * A mutation that is carried out once for each press: a further one in the same turn, before the button could be drawn busy, or
 * while the work is under way, is the same press. After a failure it can be pressed again; after a success, when what follows
 * (`onSuccess`) has been done.
 */
export function useChange<Output, Input = void>(
  options: UseMutationOptions<Output, Error, Input> & { readonly mutationFn: (input: Input) => Promise<Output> },
): UseMutationResult<Output, Error, Input> {
  const isUnderWay = useRef(false)
  const mutation = useMutation<Output, Error, Input>({
    ...options,
    onSettled: (_, error) => {
      const waitMs = error === null ? DRAWN_MS : 0
      setTimeout(() => {
        isUnderWay.current = false
      }, waitMs)
    },
  })
  const { mutate: send } = mutation
  const mutate = useCallback<typeof send>(
    (...press) => {
      if (isUnderWay.current) return
      isUnderWay.current = true
      send(...press)
    },
    [send],
  )
  return { ...mutation, mutate }
}
