// fuzz_gram_regex.c - any pattern: it is refused with a line of text, or it makes a form that can
// be walked.
#include "fuzz.h"
#include "gram_walk.h"
#include "grammar/read/gram_regex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (!n_bytes) return 0;
    fxi_gram g = {0};
    fx_error err = {0};
    uint32_t node = 0;
    const fxi_str pattern = {(const char *)data + 1, n_bytes - 1};
    const unsigned flags = data[0] & 1 ? FXI_GRAM_SEARCH : 0;
    const fxi_gram_spelling spelling = data[0] & 2 ? FXI_SPELL_JSON : FXI_SPELL_UTF8;
    const fx_status st = fxi_gram_regex(&g, pattern, flags, spelling, &node, &err);
    check_gram(&g, node, st, &err);
    return 0;
}

bool fuzz_seed(unsigned i, fxi_buf *out)
{
    static const char *const seeds[] = {
        "0(a|b)*c",      "1^[^\"\\\\]{2,5}$",     "2\\d+(?:\\.\\d+)?", "3(?<x>\\w\\s*){0,3}",
        "0\\u{1F600}|.", "0[\\x{e9}-\xC3\xBF]+?", "0(a?){3}(b*)*",     "0(?=a)"};
    return i < sizeof seeds / sizeof *seeds && fxi_buf_str(out, seeds[i]);
}
