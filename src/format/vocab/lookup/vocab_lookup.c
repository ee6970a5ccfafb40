// vocab_lookup.c - lists of ids, properties of characters, the hash index, the trie.
//
// A trie is built in breadth-first order from sorted keys. A node is a range of the sorted keys
// that share a prefix. Its children, the ranges whose prefix is one byte longer, are adjacent,
// ascending by that byte.
//
// Texts are not trusted: steps and memory of a match of a pattern are limited. Where PCRE2 has a
// just-in-time compiler, its code runs first; a match too deep for its stack is interpreted, on the
// heap.
#include "format/vocab/lookup/vocab_lookup.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/system/grow.h"
#include "base/text/utf8.h"
#include "format/show.h"
#include "format/vocab.h"

// ---- lists of ids -------------------------------------------------------------------------------

bool fxi_ids_add(fxi_ids *ids, int32_t id)
{
    if (!fxi_grow(&ids->id, sizeof *ids->id, ids->n, &ids->cap)) return false;
    ids->id[ids->n++] = id;
    return true;
}

void fxi_ids_free(fxi_ids *ids)
{
    free(ids->id);
    *ids = (fxi_ids){0};
}

// ---- characters ---------------------------------------------------------------------------------

int32_t fxi_cp_before(const char *s, size_t n, size_t *n_bytes)
{
    size_t at = n - 1, len;
    while (at && n - at < 4 && ((unsigned char)s[at] & 0xC0) == 0x80) at--;
    int32_t cp = fxi_utf8_at(s + at, n - at, &len);
    *n_bytes = n - at;
    return len == n - at ? cp : (unsigned char)s[n - 1];
}

bool fxi_cp_is_space(int32_t cp)
{
    if (cp < 0x80) return cp == ' ' || (cp >= '\t' && cp <= '\r');
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

bool fxi_cp_is_word(int32_t cp)
{
    static const bool word[] = {
        [UTF8PROC_CATEGORY_LU] = true, [UTF8PROC_CATEGORY_LL] = true,
        [UTF8PROC_CATEGORY_LT] = true, [UTF8PROC_CATEGORY_LM] = true,
        [UTF8PROC_CATEGORY_LO] = true, [UTF8PROC_CATEGORY_MN] = true,
        [UTF8PROC_CATEGORY_MC] = true, [UTF8PROC_CATEGORY_ME] = true,
        [UTF8PROC_CATEGORY_ND] = true, [UTF8PROC_CATEGORY_NL] = true,
        [UTF8PROC_CATEGORY_PC] = true, [UTF8PROC_CATEGORY_CO] = false,
    };
    if ((cp >= 0x24B6 && cp <= 0x24E9) || cp == 0x200C || cp == 0x200D) return true;
    if (cp >= 0x1F130 && cp <= 0x1F189)
        return cp <= 0x1F149 || (cp >= 0x1F150 && cp <= 0x1F169) || cp >= 0x1F170;
    return word[utf8proc_category(cp)];
}

// ---- the index ----------------------------------------------------------------------------------

static uint32_t hash_of(const fxi_index *x, const char *p, size_t n)
{
    uint64_t h = n, w = 0;
    for (; n >= sizeof w; p += sizeof w, n -= sizeof w) {
        memcpy(&w, p, sizeof w);
        h = fxi_secret_mix(x->secret, h, w);
    }
    for (w = 0; n; n--) w = w << 8 | (unsigned char)*p++;
    return (uint32_t)fxi_secret_mix(x->secret, h, w);
}

// The slot's id with this key, 0: there is none. *probe: as in fxi_hash_index_next.
static uint32_t find_key(const fxi_index *x, const char *p, size_t n, uint32_t hash, size_t *probe)
{
    uint32_t id;
    for (*probe = 0; (id = fxi_hash_index_next(&x->ids, hash, probe));) {
        const fxi_str key = x->key(x->of, (int32_t)id - 1);
        if (key.n == n && (!n || !memcmp(key.p, p, n))) break;
    }
    return id;
}

fxi_index fxi_index_make(fxi_str (*key)(const void *of, int32_t id), const void *of)
{
    return (fxi_index){.secret = fxi_secret_make(), .key = key, .of = of};
}

void fxi_index_free(fxi_index *x)
{
    fxi_hash_index_free(&x->ids);
}

bool fxi_index_put(fxi_index *x, int32_t id)
{
    const fxi_str key = x->key(x->of, id);
    const uint32_t hash = hash_of(x, key.p, key.n);
    size_t probe;
    if (!find_key(x, key.p, key.n, hash, &probe))
        return fxi_hash_index_add(&x->ids, (uint32_t)id + 1, hash);
    x->ids.slot[(hash + probe - 1) & (x->ids.n_slot - 1)].id = (uint32_t)id + 1;
    return true;
}

int32_t fxi_index_find(const fxi_index *x, const char *p, size_t n)
{
    size_t probe;
    return (int32_t)find_key(x, p, n, hash_of(x, p, n), &probe) - 1;
}

// ---- the trie -----------------------------------------------------------------------------------

static int compare_entries(const void *a, const void *b)
{
    const fxi_trie_entry *x = a, *y = b;
    int order = fxi_str_compare(x->key, y->key);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

typedef struct key_range {
    size_t lo, hi; // range of entries
} key_range;

typedef struct trie_maker {
    fxi_trie *t;
    const fxi_trie_entry *e;
    key_range *of; // [t->n] the keys of a node
    size_t cap_node, cap_of;
} trie_maker;

static bool add_node(trie_maker *m, key_range of, uint8_t label)
{
    fxi_trie *t = m->t;
    if (t->n == UINT32_MAX || !fxi_grow(&t->node, sizeof *t->node, t->n, &m->cap_node) ||
        !fxi_grow(&m->of, sizeof *m->of, t->n, &m->cap_of))
        return false;
    t->node[t->n] = (fxi_trie_node){.label = label, .id = -1};
    m->of[t->n++] = of;
    return true;
}

// Adds the children of node i, whose keys share `depth` bytes.
static bool add_children(trie_maker *m, uint32_t i, size_t depth)
{
    key_range r = m->of[i];
    uint32_t first = m->t->n;
    for (; r.lo < r.hi && m->e[r.lo].key.n == depth; r.lo++) m->t->node[i].id = m->e[r.lo].id;
    while (r.lo < r.hi) {
        char byte = m->e[r.lo].key.p[depth];
        size_t end = r.lo;
        while (end < r.hi && m->e[end].key.p[depth] == byte) end++;
        if (!add_node(m, (key_range){r.lo, end}, (uint8_t)byte)) return false;
        r.lo = end;
    }
    m->t->node[i].child = first;
    m->t->node[i].n_child = (uint16_t)(m->t->n - first);
    return true;
}

bool fxi_trie_make(fxi_trie *t, fxi_trie_entry *e, size_t n)
{
    size_t n_empty = 0;
    *t = (fxi_trie){0};
    qsort(e, n, sizeof *e, compare_entries);
    while (n_empty < n && !e[n_empty].key.n) n_empty++;
    trie_maker m = {.t = t, .e = e};
    bool ok = add_node(&m, (key_range){n_empty, n}, 0);
    uint32_t level_end = 1;
    for (uint32_t i = 0, depth = 0; ok && i < t->n; i++) {
        if (i == level_end) {
            depth++;
            level_end = t->n;
        }
        ok = add_children(&m, i, depth);
    }
    free(m.of);
    if (ok)
        for (uint32_t i = 0; i < t->node[0].n_child; i++) t->root[t->node[1 + i].label] = 1 + i;
    else
        fxi_trie_free(t);
    return ok;
}

void fxi_trie_free(fxi_trie *t)
{
    free(t->node);
    *t = (fxi_trie){0};
}

// ---- regular expressions ------------------------------------------------------------------------

enum {
    MAX_PATTERN_BYTES = 1 << 16,
    MATCH_LIMIT = 20000000, // steps of one match
    HEAP_LIMIT_KIB = 1 << 16,
    ERROR_TEXT = 128
};

struct fxi_regex {
    pcre2_code *code;
    bool is_compiled; // to machine code
    bool of_bytes;
};

struct fxi_matcher {
    pcre2_match_data *data;
    pcre2_match_context *limits;
};

static fx_status fail_pattern(fxi_str pattern, const char *what, fx_error *err)
{
    return fxi_fail(err, FX_EFORMAT, "the pattern '%s': %s", fxi_show_text(pattern).s, what);
}

fx_status fxi_regex_compile(fxi_str pattern, bool bytes, fxi_regex **out, fx_error *err)
{
    const uint32_t options = PCRE2_NEVER_BACKSLASH_C | (bytes ? 0 : PCRE2_UTF | PCRE2_UCP);
    int code = PCRE2_ERROR_HEAP_FAILED;
    size_t at;
    if (!pattern.n || pattern.n > MAX_PATTERN_BYTES)
        return fail_pattern(pattern, pattern.n ? "it is too long" : "it is empty", err);
    fxi_regex *re = calloc(1, sizeof *re);
    pcre2_compile_context *how = pcre2_compile_context_create(NULL);
    if (re && how) {
        pcre2_set_newline(how, PCRE2_NEWLINE_LF);
        re->code = pcre2_compile((PCRE2_SPTR)pattern.p, pattern.n, options, &code, &at, how);
    }
    pcre2_compile_context_free(how);
    if (re && re->code) {
        re->is_compiled = pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE) == 0;
        re->of_bytes = bytes;
        *out = re;
        return FX_OK;
    }
    free(re);
    if (code == PCRE2_ERROR_HEAP_FAILED) return fxi_fail_memory(err);
    PCRE2_UCHAR text[ERROR_TEXT];
    pcre2_get_error_message(code, text, sizeof text);
    return fail_pattern(pattern, (const char *)text, err);
}

void fxi_regex_free(fxi_regex *re)
{
    if (!re) return;
    pcre2_code_free(re->code);
    free(re);
}

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

// The first match in s[0..n) at or after byte `at`.
static fx_status match_from(const fxi_regex *re, fxi_matcher *m, const char *s, size_t n, size_t at,
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
    if (rc == PCRE2_ERROR_NOMEMORY) return fxi_fail_memory(err);
    if (rc < 0)
        return fxi_fail(err, FX_EINVAL,
                        "a pattern of the vocabulary takes too many steps on this text (%d)", rc);
    const size_t *place = pcre2_get_ovector_pointer(m->data);
    out->from = place[0] > at ? place[0] : at; // \K may have moved it
    out->to = place[1] > out->from ? place[1] : out->from;
    return FX_OK;
}

fx_status fxi_regex_next(fxi_regex_walk *w, fxi_regex_match *out, fx_error *err)
{
    *out = (fxi_regex_match){SIZE_MAX, SIZE_MAX};
    while (w->at <= w->n) {
        FX_TRY(match_from(w->re, w->m, w->s, w->n, w->at, out, err));
        if (out->from == SIZE_MAX) break;
        if (out->from < out->to || !w->matched || out->to != w->last) {
            w->matched = true;
            w->at = w->last = out->to;
            return FX_OK;
        }
        size_t len = 1;
        if (w->at < w->n && !w->re->of_bytes) fxi_utf8_at(w->s + w->at, w->n - w->at, &len);
        w->at += len;
        out->from = SIZE_MAX;
    }
    return FX_OK;
}
