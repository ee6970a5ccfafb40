// fuzz_gram_regex.c - any pattern: it is refused with a line of text, or it makes an automaton that
// never stops at a state which neither ends nor goes on, within its limits. Texts that it writes
// are valid UTF-8.
#include <string.h>

#include "base/number/rng.h"
#include "base/text/utf8.h"
#include "fuzz.h"
#include "grammar/read/gram_regex.h"
#include "grammar/run/gram_auto.h"

static int pick_byte(const fxi_byte_set *may, uint64_t r)
{
    for (uint32_t k = 0; k < 256; k++)
        if (fxi_byte_in(may, (uint8_t)(r + k))) return (uint8_t)(r + k);
    return -1;
}

static void walk_automaton(fxi_auto *a)
{
    enum { MAX_WALK = 40 };
    char s[MAX_WALK];
    uint32_t at = fxi_auto_start(a);
    for (size_t n = 0; n < MAX_WALK; n++) {
        const fxi_byte_set may = fxi_auto_bytes(a, at);
        const int byte = pick_byte(&may, fxi_rng_u64(1, 2, n));
        if (fxi_auto_is_final(a, at)) FUZZ_CHECK(fxi_utf8_check(s, n) == n);
        if (byte < 0) FUZZ_CHECK(fxi_auto_is_final(a, at));
        if (byte < 0) return;
        s[n] = (char)byte;
        if (fxi_auto_step(a, at, (uint8_t)byte, &at, NULL) != FX_OK) return; // a limit
        FUZZ_CHECK(at != FXI_AUTO_DEAD);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (!n_bytes) return 0;
    fxi_gram g = {0};
    fxi_auto *a = NULL;
    fx_error err = {0};
    uint32_t node = 0;
    const fxi_str pattern = {(const char *)data + 1, n_bytes - 1};
    const unsigned flags = data[0] & 1 ? FXI_GRAM_SEARCH : 0;
    const fxi_gram_spelling spelling = data[0] & 2 ? FXI_SPELL_JSON : FXI_SPELL_UTF8;
    fx_status st = fxi_gram_regex(&g, pattern, flags, spelling, &node, &err);
    if (!st) st = fxi_gram_finish(&g, node, &err);
    if (!st) st = fxi_auto_make(&g, 1 << 12, &a, &err);
    FUZZ_CHECK(st == FX_OK || (st == FX_EINVAL && err.text[0]));
    if (a) walk_automaton(a);
    fxi_auto_free(a);
    fxi_gram_free(&g);
    return 0;
}

bool fuzz_seed(unsigned i, fxi_buf *out)
{
    static const char *const seeds[] = {
        "0(a|b)*c",      "1^[^\"\\\\]{2,5}$",     "2\\d+(?:\\.\\d+)?", "3(?<x>\\w\\s*){0,3}",
        "0\\u{1F600}|.", "0[\\x{e9}-\xC3\xBF]+?", "0(a?){3}(b*)*",     "0(?=a)"};
    return i < sizeof seeds / sizeof *seeds && fxi_buf_str(out, seeds[i]);
}
