/**
 * Bodies of the dashboard's API: read with a limit, parsed as the gateway's are, and checked against a schema. Elysia's
 * own parsing and validation are not used, because a refusal must have the gateway's error body and code.
 *
 * A field's schema says in `description` what it must be; a refusal is made of the field's name and that.
 */
import type { Static, TObject } from "@sinclair/typebox"
import { TypeCompiler } from "@sinclair/typebox/compiler"
import { type JsonObject, present } from "../../language/json.ts"
import { Failure } from "../../failure/failure.ts"
import { parseBody } from "../../wire/body.ts"
import { readBody } from "../../gateway/read-body.ts"

/** Nothing that the dashboard sends comes near it. */
const LIMIT_BYTES = 64 * 1024

/** The raw bytes, for what is signed over them. */
export const readBytes = (request: Request): Promise<Uint8Array | Failure> =>
  readBody(request, { maxBytes: LIMIT_BYTES })

async function readJsonBody(request: Request): Promise<JsonObject | Failure> {
  const bytes = await readBytes(request)
  return bytes instanceof Failure ? bytes : parseBody(bytes)
}

/** A reader of one kind of body. Fields that the schema does not name are ignored. */
export function bodyReader<S extends TObject>(
  schema: S,
  options: { readonly nullIs?: "absent" | "a value" } = {},
): (request: Request) => Promise<Static<S> | Failure> {
  const compiled = TypeCompiler.Compile(schema)
  return async (request) => {
    const body = await readJsonBody(request)
    if (body instanceof Failure) return body
    const fields =
      options.nullIs === "a value"
        ? body
        : Object.fromEntries(Object.entries(body).filter(([, value]) => present(value)))
    if (compiled.Check(fields)) return fields
    const name = compiled.Errors(fields).First()?.path.split("/")[1] ?? ""
    return new Failure("request.invalid", { message: refusal(name, schema.properties[name]?.description) })
  }
}

const refusal = (name: string, description: string | undefined): string =>
  description === undefined ? `'${name}' is not valid.` : `'${name}' must be ${description}.`
