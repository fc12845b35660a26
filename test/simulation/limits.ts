/** What bounds a simulated process: shorter than in production, so that a world comes to rest soon. Times in milliseconds. */
export const limits = {
  maxBodyBytes: 1_000_000,
  bodyIdleMs: 30_000,
  bodyBytes: 256_000_000,
  maxConcurrency: 6,
  capacityWaitMs: 2_000,
  heartbeatMs: 700,
  settleDeadlineMs: 5_000,
  upstreamStartMs: 8_000,
  upstreamIdleMs: 6_000,
  drainMs: 5_000,
  upstreamAnswerMs: 90_000,
  drainLeftMs: 120_000,
  unreadBytes: 60_000,
  readerStallMs: 15_000,
  idleMs: 1_500,
}

/** Of answers that may be asked for again: room for one of each account, and for all of a world. */
export const SCARCE_BYTES = 400_000
export const AMPLE_BYTES = 100_000_000
