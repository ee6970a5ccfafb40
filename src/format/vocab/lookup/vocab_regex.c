// vocab_regex.c - patterns of split steps and norm steps, by PCRE2.
//
// Texts are not trusted: steps and memory of a match are limited. Where PCRE2 has a just-in-time
// compiler, its code runs first; a match too deep for its stack is interpreted, on the heap.
#include "format/vocab/lookup/vocab_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "format/show.h"

enum {
    MAX_PATTERN_BYTES = 1 << 16,
    MATCH_LIMIT = 20000000, // steps of one match
    HEAP_LIMIT_KIB = 1 << 16,
    ERROR_TEXT = 128
};

struct fxi_regex {
    pcre2_code *code;
    bool is_compiled; // to machine code
};

struct fxi_matcher {
    pcre2_match_data *data;
    pcre2_match_context *limits;
};

//
// Compiling
//

static fx_status fail_pattern(fxi_str pattern, const char *what, fx_error *err)
{
    return fxi_fail(err, FX_EFORMAT, "the pattern '%s': %s", fxi_show(pattern.p, pattern.n).s,
                    what);
}

static fx_status compile_pattern(fxi_str pattern, bool bytes, fxi_regex *re, fx_error *err)
{
    const uint32_t options = bytes ? 0 : PCRE2_UTF | PCRE2_UCP;
    int code;
    size_t at;
    pcre2_compile_context *how = pcre2_compile_context_create(NULL);
    if (!how) return fxi_fail(err, FX_ENOMEM, "no memory for a pattern");
    pcre2_set_newline(how, PCRE2_NEWLINE_LF);
    re->code = pcre2_compile((PCRE2_SPTR)pattern.p, pattern.n, options | PCRE2_NEVER_BACKSLASH_C,
                             &code, &at, how);
    pcre2_compile_context_free(how);
    if (re->code) {
        re->is_compiled = pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE) == 0;
        return FX_OK;
    }
    if (code == PCRE2_ERROR_HEAP_FAILED) return fxi_fail(err, FX_ENOMEM, "no memory for a pattern");
    PCRE2_UCHAR text[ERROR_TEXT];
    pcre2_get_error_message(code, text, sizeof text);
    return fail_pattern(pattern, (const char *)text, err);
}

fx_status fxi_regex_compile(fxi_str pattern, bool bytes, fxi_regex **out, fx_error *err)
{
    if (!pattern.n || pattern.n > MAX_PATTERN_BYTES)
        return fail_pattern(pattern, pattern.n ? "it is too long" : "it is empty", err);
    fxi_regex *re = calloc(1, sizeof *re);
    if (!re) return fxi_fail(err, FX_ENOMEM, "no memory for a pattern");
    fx_status st = compile_pattern(pattern, bytes, re, err);
    if (st == FX_OK)
        *out = re;
    else
        free(re);
    return st;
}

void fxi_regex_free(fxi_regex *re)
{
    if (!re) return;
    pcre2_code_free(re->code);
    free(re);
}

//
// Matching
//

fxi_matcher *fxi_matcher_new(void)
{
    fxi_matcher *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->data = pcre2_match_data_create(1, NULL);
    m->limits = pcre2_match_context_create(NULL);
    if (!m->data || !m->limits) {
        fxi_matcher_free(m);
        return NULL;
    }
    pcre2_set_match_limit(m->limits, MATCH_LIMIT);
    pcre2_set_heap_limit(m->limits, HEAP_LIMIT_KIB);
    return m;
}

void fxi_matcher_free(fxi_matcher *m)
{
    if (!m) return;
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->limits);
    free(m);
}

fx_status fxi_regex_next(const fxi_regex *re, fxi_matcher *m, const char *s, size_t n, size_t at,
                         fxi_regex_match *out, fx_error *err)
{
    PCRE2_SPTR text = (PCRE2_SPTR)s;
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    if (re->is_compiled)
        rc = pcre2_jit_match(re->code, text, n, at, PCRE2_NO_UTF_CHECK, m->data, m->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(re->code, text, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m->data,
                         m->limits);
    *out = (fxi_regex_match){SIZE_MAX, SIZE_MAX};
    if (rc == PCRE2_ERROR_NOMATCH) return FX_OK;
    if (rc == PCRE2_ERROR_NOMEMORY)
        return fxi_fail(err, FX_ENOMEM, "no memory to tokenize the text");
    if (rc < 0)
        return fxi_fail(err, FX_EINVAL,
                        "a pattern of the vocabulary takes too many steps on this text (%d)", rc);
    const size_t *place = pcre2_get_ovector_pointer(m->data);
    out->from = place[0] > at ? place[0] : at; // \K may have moved it
    out->to = place[1] > out->from ? place[1] : out->from;
    return FX_OK;
}
