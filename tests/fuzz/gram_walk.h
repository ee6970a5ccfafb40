// gram_walk.h - what must hold of every grammar that a compiler makes of an input.
#ifndef TESTS_FUZZ_GRAM_WALK_H
#define TESTS_FUZZ_GRAM_WALK_H

#include "base/number/rng.h"
#include "base/text/utf8.h"
#include "fuzz.h"
#include "grammar/automaton/gram_auto.h"

enum { MAX_GRAM_WALK = 60 };

static inline int pick_walk_byte(const fxi_byte_set *may, uint64_t r)
{
    for (uint32_t k = 0; k < 256; k++)
        if (fxi_byte_in(may, (uint8_t)(r + k))) return (uint8_t)(r + k);
    return -1;
}

// Bytes at random: the automaton never stops at a state which neither ends nor continues, within
// its limits. Texts that it writes are valid UTF-8. Returns their length if one came to an end,
// else 0.
static inline size_t walk_gram(const fxi_gram *g, uint64_t seed, char s[MAX_GRAM_WALK])
{
    fxi_auto *a;
    size_t n_end = 0;
    if (fxi_auto_make(g, 1 << 12, &a, NULL)) return 0;
    uint32_t at = fxi_auto_start(a);
    for (size_t n = 0; n < MAX_GRAM_WALK; n++) {
        const fxi_byte_set may = fxi_auto_bytes(a, at);
        const int byte = pick_walk_byte(&may, fxi_rng_u64(seed, 2, n));
        if (fxi_auto_is_final(a, at)) FUZZ_CHECK(fxi_utf8_check(s, n) == n);
        if (fxi_auto_is_final(a, at)) n_end = n;
        if (byte < 0) FUZZ_CHECK(fxi_auto_is_final(a, at));
        if (byte < 0) break;
        s[n] = (char)byte;
        if (fxi_auto_step(a, at, (uint8_t)byte, &at, NULL) != FX_OK) break; // a limit
        FUZZ_CHECK(at != FXI_AUTO_DEAD);
    }
    fxi_auto_free(a);
    return n_end;
}

// What a compiler made of an input, with the status it returned: a refusal has a line of text, and
// what was accepted can be walked. Frees the grammar.
static inline void check_gram(fxi_gram *g, uint32_t node, fx_status st, fx_error *err)
{
    char s[MAX_GRAM_WALK];
    if (!st) st = fxi_gram_finish(g, node, err);
    FUZZ_CHECK(st == FX_OK || (st == FX_EINVAL && err->text[0]));
    if (!st) (void)walk_gram(g, 1, s);
    fxi_gram_free(g);
}

#endif
