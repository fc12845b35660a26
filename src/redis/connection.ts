/**
 * One connection to Redis or Valkey, on which everything is pipelined. Once it has failed it stays so, and all that waits on it
 * rejects: nothing is queued for another one. It has no deadlines of its own; whoever closes it rejects what waits.
 */
import { RedisClient } from "bun"

export class RedisConnection {
  readonly #client: RedisClient

  private constructor(client: RedisClient) {
    this.#client = client
  }

  /** Rejects where nobody answers in time, or refuses the password: the client does not tell these apart. */
  static async open(url: string, connectMs: number): Promise<RedisConnection> {
    const client = new RedisClient(url, {
      connectionTimeout: connectMs,
      autoReconnect: false,
      enableOfflineQueue: false,
    })
    try {
      await client.connect()
    } catch (error) {
      client.close()
      throw error
    }
    return new RedisConnection(client)
  }

  /** Runs the script, which a server that does not have it is sent. */
  async script(keys: readonly string[], args: readonly string[]): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...args]
    try {
      return await this.#client.send("EVALSHA", [SCRIPT_SHA, ...rest])
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw error
      return await this.#client.send("EVAL", [SCRIPT, ...rest])
    }
  }

  /** Any other command. */
  send(command: string, args: readonly string[]): Promise<unknown> {
    return this.#client.send(command, [...args])
  }

  close(): void {
    this.#client.close()
  }
}

/**
 * What is counted in Redis: the minute windows of decisions §13.13, one hash for each, from a second to its bucket. A bucket is
 * its count × 1,000 and the millisecond in which the last of its calls came. Time is the server's alone.
 *
 * One script for all that is asked, so that each is one step of the server: nobody comes between the look and the count.
 * `KEYS`: the epoch, and the window. `ARGV`: what is asked, the epoch that the asker knows, and until when it waits. An epoch names one set of data: whoever
 * finds another one than it knows has to tell what it admitted before Redis' word counts. The answer to all but `beat`:
 * epoch and now (ms); of the epoch that was known also whether it fits (1 or 0), what is used, in how many ms the window is empty,
 * and in how many so much fits (-1: never).
 *
 * Who waits no longer has gone by its share, and nothing is counted for it: a server that stood still finds what was asked long ago.
 *
 * - `beat epoch`: makes the epoch where there is none.
 * - `take epoch until amount limit`: counts so much where it fits.
 * - `look epoch until amount limit`: the same, and counts nothing.
 * - `add epoch until {second ms by}…`: what was counted elsewhere, or was counted wrongly. It is counted whatever the limit is.
 */
const SCRIPT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local epoch = redis.call('GET', KEYS[1])
if ARGV[1] == 'beat' then
  epoch = epoch or ARGV[2]
  redis.call('SET', KEYS[1], epoch, 'PX', 3600000)
  return { epoch, now }
end
if epoch ~= ARGV[2] or now > tonumber(ARGV[3]) then return { epoch or '', now } end

local window = KEYS[2]
local this = math.floor(now / 1000)
local counts, lasts = {}, {}
local gone = {}
local used = 0
local function keep(second)
  redis.call('HSET', window, second, string.format('%.0f', counts[second] * 1000 + lasts[second]))
end

local flat = redis.call('HGETALL', window)
local ahead = 0
for i = 1, #flat, 2 do
  local second, bucket = tonumber(flat[i]), tonumber(flat[i + 1])
  local count, last = math.floor(bucket / 1000), bucket % 1000
  if second > this then
    -- The clock was set back: it was counted just now.
    ahead = ahead + count
    gone[#gone + 1] = flat[i]
  elseif second * 1000 + last + 60000 <= now then
    gone[#gone + 1] = flat[i]
  else
    counts[second], lasts[second] = count, last
    used = used + count
  end
end

local function add(second, last, by)
  if second > this then second, last = this, now % 1000 end
  if second * 1000 + last + 60000 <= now and counts[second] == nil then return end
  local before = counts[second] or 0
  -- Beyond that a bucket would not be exact any more; no limit is so high.
  counts[second] = math.min(math.max(before + by, 0), 8000000000000)
  lasts[second] = math.max(lasts[second] or 0, last)
  used = used + counts[second] - before
  keep(second)
end

if #gone > 0 then redis.call('HDEL', window, unpack(gone)) end
if ahead > 0 then add(this, now % 1000, ahead) end

local fits, amount, limit = 1, 0, 0
if ARGV[1] == 'add' then
  for i = 4, #ARGV, 3 do add(tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])) end
else
  amount, limit = tonumber(ARGV[4]), tonumber(ARGV[5])
  if used + amount > limit then fits = 0
  elseif ARGV[1] == 'take' then add(this, now % 1000, amount) end
end
if ARGV[1] ~= 'look' then redis.call('PEXPIRE', window, 62000) end

local seconds = {}
for second, count in pairs(counts) do if count > 0 then seconds[#seconds + 1] = second end end
local empty, wait = 0, 0
for _, second in ipairs(seconds) do empty = math.max(empty, second * 1000 + lasts[second] + 60000 - now) end
if fits == 0 then
  if amount > limit then wait = -1
  else
    table.sort(seconds)
    local left = used
    for _, second in ipairs(seconds) do
      if left + amount <= limit then break end
      left = left - counts[second]
      wait = second * 1000 + lasts[second] + 60000 - now
    end
  end
end
return { epoch, now, fits, used, empty, wait }
`

/** As `EVALSHA` names it. */
const SCRIPT_SHA = new Bun.CryptoHasher("sha1").update(SCRIPT).digest("hex")

/** Why limits went from Redis back to shares. */
export type FallReason = (typeof FALL_REASONS)[number]

/**
 * `closed`: it could not be connected to, or the connection ended. `late`: no answer in time. `emptied`: its data have begun anew.
 * Others are its own errors, of which `error` is any that is not named.
 */
export const FALL_REASONS = [
  "closed",
  "late",
  "emptied",
  "oom",
  "readonly",
  "loading",
  "misconf",
  "noauth",
  "noperm",
  "error",
] as const

export function reasonOf(error: unknown): FallReason {
  const code = errorCodeOf(error)?.toLowerCase()
  if (code === undefined) return "closed"
  return FALL_REASONS.find((reason) => reason === code) ?? "error"
}

/** In upper case, as Redis begins an error that it answers; undefined where it answered nothing. */
function errorCodeOf(error: unknown): string | undefined {
  const message = error instanceof Error ? error.message : ""
  return /^([A-Z]{2,20})\b/.exec(message)?.[1]
}
