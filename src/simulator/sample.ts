/**
 * The smallest answer that a JSON schema allows, so that structured output can be tried out where nothing is scripted.
 * Of the schemas that vendors take for it: objects, lists, alternatives, constants, and references within the schema.
 */
import { isObject, type Json, type JsonObject } from "../language/json.ts"

/** A schema may refer to itself; deeper than this nobody asks. */
const deepest = 16
const most = 100

export const sample = (schema: Json | undefined, root: Json | undefined = schema, depth = 0): Json => {
  if (!isObject(schema) || depth > deepest) return null
  const { $ref, const: constant, enum: allowed, default: usual, type } = schema
  if (typeof $ref === "string") return sample(referred($ref, root), root, depth + 1)
  const [given] = [constant, ...(Array.isArray(allowed) ? allowed : []), usual].filter((value) => value !== undefined)
  if (given !== undefined) return given
  const [alternative] = [schema["anyOf"], schema["oneOf"], schema["allOf"]].flatMap((all) =>
    Array.isArray(all) ? all : [],
  )
  if (alternative !== undefined) return sample(alternative, root, depth + 1)
  const kind = Array.isArray(type) ? type[0] : type
  if (kind === "string") return "simulated"
  if (kind === "integer" || kind === "number") return typeof schema["minimum"] === "number" ? schema["minimum"] : 1
  if (kind === "boolean") return true
  if (kind === "null") return null
  if (kind === "array")
    return Array.from({ length: Math.min(fewest(schema), most) }, () => sample(schema["items"], root, depth + 1))
  return sampleObject(schema, root, depth)
}

const sampleObject = ({ properties }: JsonObject, root: Json | undefined, depth: number): Json =>
  Object.fromEntries(
    Object.entries(isObject(properties) ? properties : {}).map(([name, value]) => [
      name,
      sample(value, root, depth + 1),
    ]),
  )

const fewest = ({ minItems }: JsonObject): number => (typeof minItems === "number" && minItems > 0 ? minItems : 0)

/** `#/$defs/name` */
const referred = (reference: string, root: Json | undefined): Json | undefined => {
  let here = root
  for (const step of reference.split("/").slice(1)) here = isObject(here) ? here[step] : undefined
  return here
}
