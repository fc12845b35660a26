/** Something is at work; what, its place says. */
import { LoaderCircle } from "lucide-react"

export const Spinner = () => <LoaderCircle className="spinner" aria-hidden="true" />
