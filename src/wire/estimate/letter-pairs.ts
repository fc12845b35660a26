/**
 * How likely a tokenizer is to cut a word between two letters: one row for each first letter, one digit of base 36 for
 * each second one, 0 never and z always. Counted over o200k's own cuts in English and Indonesian prose, several other
 * languages in Latin script, code, JSON and base64. It tells languages and random text apart where a word's length
 * cannot: "th" is seldom cut, "ng" in the midst of an Indonesian word often, "qz" nearly always.
 */
const rows = [
  "4000k21134000090a000101202",
  "6add2hcj53k1fe3lq15b9mif1w",
  "3b2a1gh05q108g29k1804hgg4j",
  "3af41c5j3h9cgv3en7138cje3j",
  "2320313c5f6010h4100092302d",
  "1ibk11hk1pe2ga1bp2611mjb6s",
  "7aki2kb26kw2c29is1458jjlbn",
  "29lc0ngk4libfm1eg4803g9eaf",
  "2200100am41000005000s0e2d1",
  "7iij2hmnfhgglc9mni5l4onrjs",
  "2dnf2odc3pali98ptb66cgbrau",
  "48e3196k5k83ke2csj1347fm1r",
  "41j31k3m8vog3722em2gahijbq",
  "6h10140c6k36c316ti1064qg1a",
  "5110602624100020n0010117e4",
  "2j572bc35na13k12i1204jh57u",
  "goilntpphuu1nfmlf6ec0npopt",
  "5g22141l563b211j5221947h1s",
  "5r851cm24j96bq263510433f8g",
  "9l332kl14oh7lk31u1112e6b1b",
  "603012232h1000c1p000j5e498",
  "2ngi0m5m3odgcl2frfdkiknljo",
  "2kka1lm11oleg22ft24c9h5ccu",
  "7jjkalul8utpimj1uii1kotefl",
  "5ibjbthsirk68221uf47wt9jfl",
  "7pri2mke4pppfcdpskld7objc2",
]

export const LETTERS = 26

/** Indexed by `first * LETTERS + second`, letters counted from 0, upper and lower case alike. */
export const cutBetween = Float64Array.from(rows.join(""), (digit) => Number.parseInt(digit, 36) / 35)
