/**
 * The dashboard's API, typed by the server's own routes (Eden). Types alone come from there: nothing of the server is in
 * the page. The session is a cookie that the page never sees.
 */
import { treaty } from "@elysiajs/eden/treaty2"
import type { DashboardApi } from "../../http/dashboard/api.ts"

/** Times stay the text that the API sends; the page reads them where it shows them. */
export const api = treaty<DashboardApi>(location.origin, { parseDate: false })
