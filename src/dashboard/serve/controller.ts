/**
 * Serves the dashboard: the page at `/dashboard` and at all addresses of its pages, the files at `/dashboard/assets/`. Bun's
 * HTML routes could serve them too, but do not allow other headers.
 */
import { Elysia } from "elysia"
import { Failure } from "../../failure/failure.ts"
import { edge } from "../../http/edge.ts"
import { assets, respond } from "./kept.ts"

export const dashboardController = () =>
  new Elysia({ name: "dashboard/page" })
    .use(edge)
    .get("/dashboard", page)
    .get("/dashboard/", ({ redirect }) => redirect("/dashboard"))
    .get("/dashboard/*", page)
    .get("/dashboard/assets/:name", async ({ request, params }) => {
      const asset = (await assets()).files.get(params.name)
      if (asset === undefined) return new Failure("route.not_found")
      return respond(request, asset, { "Cache-Control": "public, max-age=31536000, immutable" })
    })

const page = async ({ request }: { request: Request }): Promise<Response> =>
  respond(request, (await assets()).page, { "Cache-Control": "no-store" })
