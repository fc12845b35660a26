import { edenGC, fullGC, heapStats } from "bun:jsc"
import { describe, expect, test } from "bun:test"
import { DenseSet, type Placed } from "../../actors/kernel/dense-set.ts"
import { seededRandom } from "./virtual-time.ts"

class Element implements Placed {
  place: number | undefined
  /** Of a kind that the heap counts apart. */
  readonly made = new Date()
}

const dates = () => heapStats().objectTypeCounts["Date"] ?? 0

describe("a dense set", () => {
  test("has what a set has, whatever comes and goes", () => {
    const random = seededRandom(11)
    const dense = new DenseSet<Element>()
    const plain = new Set<Element>()
    const elements = Array.from({ length: 40 }, () => new Element())
    for (let step = 0; step < 5_000; step++) {
      const element = elements[Math.floor(random() * elements.length)]
      if (element === undefined) throw new Error("no element")
      if (random() < 0.5) {
        dense.add(element)
        plain.add(element)
      } else expect(dense.delete(element)).toBe(plain.delete(element))
      expect(dense.size).toBe(plain.size)
      expect(dense.has(element)).toBe(plain.has(element))
    }
    expect(plain.size).toBeGreaterThan(0)
    expect(new Set(dense.all())).toEqual(plain)
  })

  test("may change while all of a moment are gone through", () => {
    const dense = new DenseSet<Element>()
    for (let n = 0; n < 10; n++) dense.add(new Element())
    for (const element of dense.all()) {
      dense.delete(element)
      dense.add(new Element())
    }
    expect(dense.size).toBe(10)
  })

  test("refuses what is in another one, and says no to deleting it", () => {
    const [here, there] = [new DenseSet<Element>(), new DenseSet<Element>()]
    const element = new Element()
    here.add(element)
    expect(() => there.add(element)).toThrow("in another set")
    expect(there.has(element)).toBe(false)
    expect(there.delete(element)).toBe(false)
    expect(here.delete(element)).toBe(true)
    there.add(element)
    expect(there.has(element)).toBe(true)
  })

  test("lets go of what left: a collection of what is new takes it, however old the set is", () => {
    const dense = new DenseSet<Element>()
    fullGC()
    const before = dates()
    for (let turn = 0; turn < 5; turn++) {
      churn(dense, 3_000)
      edenGC()
    }
    expect(dense.size).toBe(0)
    // Where a Set is in its place these are more than a thousand for each of the turns.
    expect(dates() - before).toBeLessThan(200)
  })
})

/** So many come and go; 64 are in it at a time. */
function churn(dense: DenseSet<Element>, count: number): void {
  const inside: Element[] = []
  for (let n = 0; n < count; n++) {
    const element = new Element()
    dense.add(element)
    inside.push(element)
    const first = inside.length > 64 ? inside.shift() : undefined
    if (first !== undefined) dense.delete(first)
  }
  for (const element of inside) dense.delete(element)
}
