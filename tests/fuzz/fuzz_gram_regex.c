// fuzz_gram_regex.c - any pattern: it is refused with a line of text, or it makes a form that can
// be walked. Where PCRE2 takes the pattern, too, both say the same of texts: some that the
// automaton goes on with, some at random, all of characters that the dialects mean the same by.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "fuzz.h"

#include <pcre2.h>

#include "gram_walk.h"
#include "grammar/syntax/gram_regex.h"

FUZZ_TARGET(fuzz_gram_regex);

enum { N_TEXT = 12, MAX_TEXT = 9, MAX_PIECES = 24, MATCH_LIMIT = 4000, N_TRY = 4 };

// ---- what texts are made of ---------------------------------------------------------------------

typedef struct text_pieces {
    fxi_str piece[MAX_PIECES];
    size_t n;
} text_pieces;

// Ends of lines, and spaces beyond ASCII, are what the dialects' . and \s and \v disagree on.
static bool is_agreed_on(int32_t c)
{
    return c == '\t' || (c >= ' ' && c < 0x7F) || (c > 0xA0 && c < 0x1680) ||
           (c > 0x3000 && c < 0xFEFF) || c > 0xFFFF;
}

// Characters of every kind, and those of the pattern.
static void list_pieces(text_pieces *t, fxi_str pattern)
{
    static const char *const always[] = {
        "a", "b", "Z", "1", " ", "-", "_", "\xC3\xA9", "\xF0\x9F\x98\x80"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        t->piece[t->n++] = fxi_str_of(always[i]);
    for (size_t at = 0, n; at < pattern.n && t->n < MAX_PIECES; at += n)
        if (is_agreed_on(fxi_utf8_at(pattern.p + at, pattern.n - at, &n)))
            t->piece[t->n++] = (fxi_str){pattern.p + at, n};
}

// ---- the automaton ------------------------------------------------------------------------------

// False: a limit.
static bool step_piece(fxi_auto *a, uint32_t *state, fxi_str piece)
{
    for (size_t i = 0; i < piece.n; i++)
        if (fxi_auto_step(a, *state, (uint8_t)piece.p[i], state, NULL)) return false;
    return true;
}

// A text at random; in every other one characters with which a match goes on are preferred. False:
// a limit.
static bool write_text(fxi_auto *a, const text_pieces *t, uint64_t seed, fxi_buf *text, bool *match)
{
    uint32_t at = fxi_auto_start(a);
    const uint64_t n_char = fxi_rng_u64(seed, 0, 1) % MAX_TEXT;
    for (uint64_t i = 0; i < n_char; i++) {
        uint32_t next = FXI_AUTO_DEAD;
        fxi_str piece = t->piece[0];
        for (uint64_t k = 0; k < (seed & 1 ? N_TRY : 1) && next == FXI_AUTO_DEAD; k++) {
            piece = t->piece[fxi_rng_u64(seed, 2 + i, k) % t->n];
            next = at;
            if (!step_piece(a, &next, piece)) return false;
        }
        at = next;
        FUZZ_CHECK(fxi_buf_add(text, piece.p, piece.n));
    }
    *match = fxi_auto_is_final(a, at);
    return true;
}

// ---- PCRE2 --------------------------------------------------------------------------------------

// What PCRE2 reads otherwise: the form that its later versions give {,n}, and \u, \U.
static bool is_read_otherwise(fxi_str pattern)
{
    for (size_t i = 0; i + 1 < pattern.n; i++)
        if (!memcmp(pattern.p + i, "{,", 2) || !memcmp(pattern.p + i, "\\u", 2)) return true;
    return false;
}

// NULL: PCRE2 does not take it.
static pcre2_code *read_as_peer(fxi_str pattern, unsigned flags)
{
    int code;
    PCRE2_SIZE at;
    const uint32_t whole = flags & FXI_GRAM_SEARCH ? 0 : PCRE2_ANCHORED | PCRE2_ENDANCHORED;
    if (is_read_otherwise(pattern)) return NULL;
    return pcre2_compile((PCRE2_SPTR)pattern.p, pattern.n, PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | whole,
                         &code, &at, NULL);
}

static void compare_text(pcre2_code *re, pcre2_match_context *limits, const fxi_buf *text,
                         bool match)
{
    pcre2_match_data *found = pcre2_match_data_create_from_pattern(re, NULL);
    FUZZ_CHECK(found);
    const char *s = text->n ? text->p : "";
    const int rc = pcre2_match(re, (PCRE2_SPTR)s, text->n, 0, 0, found, limits);
    pcre2_match_data_free(found);
    if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH) FUZZ_CHECK((rc >= 0) == match);
}

static void compare_with_peer(const fxi_gram *g, fxi_str pattern, unsigned flags)
{
    fxi_auto *a;
    text_pieces t = {.n = 0};
    pcre2_code *re = read_as_peer(pattern, flags);
    if (!re) return;
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    FUZZ_CHECK(limits);
    pcre2_set_match_limit(limits, MATCH_LIMIT);
    list_pieces(&t, pattern);
    if (!fxi_auto_make(g, 1 << 12, &a, NULL)) {
        for (uint64_t seed = 0; seed < N_TEXT; seed++) {
            fxi_buf text = {0};
            bool match = false;
            if (write_text(a, &t, seed, &text, &match)) compare_text(re, limits, &text, match);
            fxi_buf_free(&text);
        }
        fxi_auto_free(a);
    }
    pcre2_match_context_free(limits);
    pcre2_code_free(re);
}

// ---- inputs -------------------------------------------------------------------------------------

int fuzz_gram_regex_run(const uint8_t *data, size_t n_bytes)
{
    if (!n_bytes) return 0;
    fxi_gram g = {0};
    fx_error err = {0};
    uint32_t node = 0;
    const fxi_str pattern = {(const char *)data + 1, n_bytes - 1};
    const unsigned flags = data[0] & 1 ? FXI_GRAM_SEARCH : 0;
    const fxi_gram_spelling spelling = data[0] & 2 ? FXI_SPELL_JSON : FXI_SPELL_UTF8;
    fx_status st = fxi_gram_regex(&g, pattern, flags, spelling, &node, &err);
    if (!st && spelling == FXI_SPELL_UTF8) {
        st = fxi_gram_finish(&g, node, &err);
        if (!st) compare_with_peer(&g, pattern, flags);
    }
    check_gram(&g, node, st, &err);
    return 0;
}

FUZZ_SEEDS(fuzz_gram_regex, "0(a|b)*c", "1^[^\"\\\\]{2,5}$", "2\\d+(?:\\.\\d+)?",
           "3(?<x>\\w\\s*){0,3}", "0\\u{1F600}|.", "0[\\x{e9}-\xC3\xBF]+?", "0(a?){3}(b*)*",
           "0(?=a)", "0^a|b$", "1(?:[a-z\\d_-]+@)?b{2,}?|\\cI", "0[^\\W\\S-]|\\x41",
           "0a{2}b{1,3}1{2,}", "2\\d[^\\w]", "1a||^$")
