// Any bytes as a text: bad UTF-8 is refused, anything else comes back from its ids as it was. The first byte of the
// input chooses the vocabulary and the flags.
#include <string.h>

#include "base/utf8.h"
#include "fuzz.h"
#include "unit/format/small_vocab.h"

static const small_token words[] = {
    {SP, -9, NORMAL},       {"a", -8, NORMAL},    {"b", -8, NORMAL},   {"ab", -2, NORMAL},
    {SP "a", -3, NORMAL},   {"aa", -2, NORMAL},   {SP SP, -4, NORMAL}, {"<tool>", 0, USER},
    {"<t", -5, NORMAL},     {"<go>", 0, CONTROL}, {SP SP SP, 0, USER}, {"\xC3\xA9", -6, NORMAL},
    {"e\xCC\x81", 0, USER}, {"aab", -1, UNUSED},
};
static const small_token crossing[] = {
    {SP, -9, NORMAL},     {"a", -8, NORMAL},        {"a" SP, -1, NORMAL},
    {SP "a", -2, NORMAL}, {"a" SP "a", -3, NORMAL},
};

static const vocab_parts parts[] = {
    {.own = words, .n_own = sizeof words / sizeof *words},
    {.own = crossing, .n_own = sizeof crossing / sizeof *crossing},
};

static bool is_mark(const char *s, size_t n)
{
    return n >= 3 && !memcmp(s, SP, 3);
}

// Whether the ids spell the text, in which U+2581 and spaces are one.
static bool spells(const fxi_vocab *v, const fxi_ids *ids, const char *text, size_t n_text)
{
    size_t at = 0, n;
    for (size_t i = 0; i < ids->n; i++) {
        bool control = fxi_vocab_control(v, ids->id[i]);
        const char *p =
            control ? fxi_vocab_piece(v, ids->id[i], &n) : fxi_vocab_bytes(v, ids->id[i], &n);
        for (size_t k = 0; k < n; k++) {
            size_t step = p[k] == ' ' && is_mark(text + at, n_text - at) ? 3 : 1;
            if (at >= n_text || (step == 1 && text[at] != p[k])) return false;
            at += step;
        }
    }
    return at == n_text;
}

static void check_text(const fxi_vocab *v, const char *text, size_t n, unsigned flags)
{
    fxi_ids ids = {0};
    fx_error err;
    fx_status st = fxi_vocab_encode(v, text, n, flags, &ids, &err);
    FUZZ_CHECK(st == (fxi_utf8_check(text, n) == n ? FX_OK : FX_EINVAL));
    FUZZ_CHECK(st != FX_OK || spells(v, &ids, text, n));
    FUZZ_CHECK(st == FX_OK || !ids.n);
    fxi_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static fxi_vocab *loaded[2]; // immutable
    if (!n_bytes) return 0;
    unsigned which = data[0] & 1;
    if (!loaded[which]) FUZZ_CHECK(load_parts(&parts[which], &loaded[which], NULL) == FX_OK);
    check_text(loaded[which], (const char *)data + 1, n_bytes - 1, data[0] & FXI_ENCODE_CONTROL);
    return 0;
}

bool fuzz_seed(unsigned i, fxi_buf *out)
{
    static const char *const texts[] = {
        "@ab aab  a   b<tool>a<go>",
        "B<go>a" SP "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\xA6\x99",
        "Aa a a a  aa a",
        "@e\xCC\x81\n\t<too",
    };
    if (i >= sizeof texts / sizeof *texts) return false;
    put_bytes(out, texts[i], strlen(texts[i]));
    return true;
}
