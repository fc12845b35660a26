/**
 * Fields that send a call elsewhere, or make it another or more than one, whatever a catalogue passes on: other models,
 * hosts and speeds, more answers, a longer cache.
 */

/** Told without their case and their separators. */
export function isRouting(name: string): boolean {
  const bare = name.toLowerCase().replaceAll(/[-_.\s]/g, "")
  return ROUTING.has(bare) || bare.startsWith("guided")
}

const ROUTING = new Set(
  (
    "model models route routes routing router provider providers plugins transforms fallback fallbacks n bestof speed " +
    "servicetier inferencegeo prewarm generate mode ttl tools mcpservers websearchoptions extrabody proto"
  ).split(" "),
)
