/**
 * A collector of spans by OTLP over HTTP that takes nothing which the protocol does not have: an unknown field, an id of another length, an
 * enum by its name, a span without a name or that ends before it starts. What it does not take is a 400 and is kept in `problems`.
 */
import protobuf from "protobufjs"

export interface ReceivedSpan {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string
  /** 1 is internal, 2 a server's, 3 a client's. */
  readonly kind: number
  /** Nanoseconds since the epoch. */
  readonly start: bigint
  readonly end: bigint
  readonly attributes: Readonly<Record<string, string | number | boolean>>
  readonly events: readonly string[]
  /** 0 is unset, 2 an error. */
  readonly status: number
}

export interface Receiver extends AsyncDisposable {
  readonly url: string
  readonly spans: ReceivedSpan[]
  readonly resources: Readonly<Record<string, unknown>>[]
  /** Bodies as they came, decompressed. */
  readonly bodies: Uint8Array[]
  readonly headers: Headers[]
  readonly problems: string[]
  /** What it answers instead of taking a request, for each that comes; undefined takes it. */
  answer: ((request: Request) => Response | Promise<Response> | undefined) | undefined
  /** Spans of the trace that this one of its spans is in, once there is one such. */
  trace(of: (span: ReceivedSpan) => boolean): Promise<ReceivedSpan[]>
}

/** The parts of opentelemetry-proto that a trace has. Statuses and ids are told apart below. */
const SCHEMA = `
  syntax = "proto3";
  message Request { repeated ResourceSpans resource_spans = 1; }
  message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; string schema_url = 3; }
  message Resource { repeated KeyValue attributes = 1; uint32 dropped_attributes_count = 2; }
  message ScopeSpans { Scope scope = 1; repeated Span spans = 2; string schema_url = 3; }
  message Scope { string name = 1; string version = 2; repeated KeyValue attributes = 3; uint32 dropped_attributes_count = 4; }
  message Span {
    bytes trace_id = 1; bytes span_id = 2; string trace_state = 3; bytes parent_span_id = 4; fixed32 flags = 16;
    string name = 5; int32 kind = 6; fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8;
    repeated KeyValue attributes = 9; uint32 dropped_attributes_count = 10; repeated Event events = 11;
    uint32 dropped_events_count = 12; repeated Link links = 13; uint32 dropped_links_count = 14; Status status = 15;
  }
  message Event { fixed64 time_unix_nano = 1; string name = 2; repeated KeyValue attributes = 3; uint32 dropped_attributes_count = 4; }
  message Link { bytes trace_id = 1; bytes span_id = 2; string trace_state = 3; repeated KeyValue attributes = 4; fixed32 flags = 6; }
  message Status { string message = 2; int32 code = 3; }
  message KeyValue { string key = 1; AnyValue value = 2; }
  message AnyValue { oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4; } }`

const requestType = protobuf.parse(SCHEMA).root.lookupType("Request")

type Fields = Record<string, unknown>

export function startReceiver(): Receiver {
  const receiver: Receiver = {
    url: "",
    spans: [],
    resources: [],
    bodies: [],
    headers: [],
    problems: [],
    answer: undefined,
    async trace(of) {
      for (let tries = 0; tries < 6_000; tries++) {
        const found = receiver.spans.find(of)
        if (found !== undefined) return receiver.spans.filter(({ traceId }) => traceId === found.traceId)
        await Bun.sleep(10)
      }
      throw new Error(`no such span among ${receiver.spans.map(({ name }) => name).join(", ")}`)
    },
    [Symbol.asyncDispose]: () => server.stop(true),
  }
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      receiver.headers.push(request.headers)
      const instead = await receiver.answer?.(request)
      if (instead !== undefined) return instead
      try {
        return await take(request, receiver)
      } catch (error) {
        receiver.problems.push(String(error))
        return new Response(undefined, { status: 400 })
      }
    },
  })
  return Object.assign(receiver, { url: server.url.origin })
}

async function take(request: Request, receiver: Receiver): Promise<Response> {
  const { pathname } = new URL(request.url)
  if (request.method !== "POST" || pathname !== "/v1/traces") throw new Error(`${request.method} ${pathname}`)
  const type = request.headers.get("content-type")
  const sent = new Uint8Array(await request.arrayBuffer())
  const body = request.headers.get("content-encoding") === "gzip" ? Bun.gunzipSync(sent) : sent
  receiver.bodies.push(body)
  if (type !== "application/x-protobuf" && type !== "application/json") throw new Error(`of type ${type}`)
  const isJson = type === "application/json"
  const read = isJson ? known(JSON.parse(new TextDecoder().decode(body)), requestType) : decoded(body)
  for (const { resource, scopeSpans = [] } of list(read["resourceSpans"])) {
    receiver.resources.push(pairs((resource as Fields)["attributes"]))
    for (const { spans } of list(scopeSpans)) receiver.spans.push(...list(spans).map((span) => spanOf(span, isJson)))
  }
  return new Response(isJson ? "{}" : new Uint8Array(), { headers: { "Content-Type": type } })
}

function decoded(body: Uint8Array): Fields {
  walk(protobuf.Reader.create(body), body.length, requestType)
  return requestType.toObject(requestType.decode(body), { longs: String })
}

const LENGTH_DELIMITED = 2

/** A decoder passes over what its schema does not have. */
function walk(reader: protobuf.Reader, end: number, type: protobuf.Type): void {
  while (reader.pos < end) {
    const tag = reader.uint32()
    const field = type.fieldsById[tag >>> 3]?.resolve()
    if (field === undefined) throw new Error(`${type.name} has no field ${tag >>> 3}`)
    if (field.resolvedType instanceof protobuf.Type && (tag & 7) === LENGTH_DELIMITED) {
      const length = reader.uint32()
      walk(reader, reader.pos + length, field.resolvedType)
    } else reader.skipType(tag & 7)
  }
  if (reader.pos !== end) throw new Error(`${type.name} is cut short`)
}

/** JSON by the same schema: names in camel case, and none that is not there. */
function known(value: unknown, type: protobuf.Type): Fields {
  const fields: Fields = {}
  for (const [name, each] of Object.entries(value as Fields)) {
    const field = type.fields[name]?.resolve()
    if (field === undefined) throw new Error(`${type.name} has no field ${name}`)
    const { resolvedType } = field
    const read = (item: unknown) => (resolvedType instanceof protobuf.Type ? known(item, resolvedType) : item)
    if (field.repeated !== Array.isArray(each)) throw new Error(`${name} is ${JSON.stringify(each)}`)
    fields[name] = Array.isArray(each) ? each.map(read) : read(each)
  }
  return fields
}

function spanOf(span: Fields, isJson: boolean): ReceivedSpan {
  const hex = (value: unknown): string => {
    if (isJson) return typeof value === "string" ? value : ""
    return value === undefined ? "" : Buffer.from(value as Uint8Array).toString("hex")
  }
  const read = {
    name: textOf(span["name"]),
    traceId: hex(span["traceId"]),
    spanId: hex(span["spanId"]),
    parentSpanId: hex(span["parentSpanId"]),
    kind: Number(span["kind"]),
    start: BigInt(span["startTimeUnixNano"] as string),
    end: BigInt(span["endTimeUnixNano"] as string),
    attributes: pairs(span["attributes"]),
    events: list(span["events"]).map(({ name }) => textOf(name)),
    status: Number((span["status"] as Fields | undefined)?.["code"] ?? 0),
  }
  const isWhole =
    read.name !== "" &&
    /^(?!0+$)[0-9a-f]{32}$/.test(read.traceId) &&
    /^(?!0+$)[0-9a-f]{16}$/.test(read.spanId) &&
    /^((?!0+$)[0-9a-f]{16})?$/.test(read.parentSpanId) &&
    [1, 2, 3, 4, 5].includes(read.kind) &&
    [0, 1, 2].includes(read.status) &&
    read.start > 1_600_000_000_000_000_000n &&
    read.end >= read.start
  if (!isWhole) throw new Error(`a span that is none: ${read.name} ${read.start} ${read.end} ${read.kind}`)
  return read
}

function pairs(attributes: unknown): Record<string, string | number | boolean> {
  const read: Record<string, string | number | boolean> = {}
  for (const { key, value } of list(attributes)) {
    if (typeof key !== "string" || key === "" || key in read) throw new Error(`the attribute ${String(key)} twice`)
    const { stringValue, boolValue, intValue, doubleValue } = value as Readonly<
      Record<string, string & boolean & number>
    >
    const found = stringValue ?? boolValue ?? (intValue === undefined ? doubleValue : Number(intValue))
    if (found === undefined) throw new Error(`the attribute ${key} without a value`)
    read[key] = found
  }
  return read
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : "")
const list = (value: unknown): Fields[] => (value ?? []) as Fields[]
