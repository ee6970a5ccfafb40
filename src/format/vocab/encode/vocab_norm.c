// vocab_norm.c - norm steps: what happens to a text before it is cut into words.
//
// The steps run one after another, each from one buffer into the other. A step that does not change
// the text copies nothing.
//
// Normal forms are made by utf8proc, of those stretches of a text that need it. A character is
// inert in a form if nothing before it can change it: it neither decomposes nor combines with what
// is on its left. Stretches of inert characters are copied. All others go through utf8proc together
// with the inert character on their left, which they may combine with.
//
// SentencePiece's precompiled map from characters to characters:
//
//   bytes of the trie (32 bits) | trie: units of 32 bits | texts, each ending in a NUL
//
// The trie is a double array. A unit that a byte leads to holds the byte (low 8 bits), whether a
// key ends here (bit 8), and where its children are (bits 9 to 31, an offset xor-ed to the unit's
// own index). Child 0 of a unit where a key ends holds the value: an offset into the texts. At each
// byte of a text the longest key is taken. All integers are little endian.
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/text/utf8.h"
#include "format/vocab/encode/vocab_norm.h"
#include "format/vocab/lookup/vocab_lookup.h"

// ---- the precompiled map ------------------------------------------------------------------------

enum { MAX_KEY_BYTES = 256 };

typedef struct char_map {
    const char *unit; // [n_unit], unaligned
    size_t n_unit;
    fxi_str texts;
} char_map;

static uint32_t u32_at(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static bool open_map(fxi_str s, char_map *m)
{
    if (s.n < 4) return false;
    size_t n = u32_at(s.p);
    if (n < 4 || n % 4 || n > s.n - 4) return false;
    *m = (char_map){s.p + 4, n / 4, {s.p + 4 + n, s.n - 4 - n}};
    return true;
}

bool fxi_charsmap_check(fxi_str s)
{
    char_map m;
    return open_map(s, &m) && m.texts.n && !m.texts.p[m.texts.n - 1] &&
           fxi_utf8_check(m.texts.p, m.texts.n) == m.texts.n;
}

static uint32_t offset_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

static bool is_start(const fxi_str s, size_t at)
{
    return at >= s.n || ((unsigned char)s.p[at] & 0xC0) != 0x80;
}

// The length of the longest key that s begins with, and its text; 0: none.
static size_t longest_key(const char_map *m, fxi_str s, fxi_str *text)
{
    size_t best = 0, node = offset_of(u32_at(m->unit));
    for (size_t i = 0; i < s.n && i < MAX_KEY_BYTES; i++) {
        const unsigned char byte = (unsigned char)s.p[i];
        node ^= byte;
        if (node >= m->n_unit) break;
        uint32_t unit = u32_at(m->unit + 4 * node);
        if ((unit & (1u << 31 | 0xFF)) != byte) break;
        node ^= offset_of(unit);
        if (node >= m->n_unit) break;
        if (!(unit >> 8 & 1) || !is_start(s, i + 1)) continue;
        size_t at = u32_at(m->unit + 4 * node) & ~(1u << 31);
        if (at >= m->texts.n || !is_start(m->texts, at)) continue;
        best = i + 1;
        *text = (fxi_str){m->texts.p + at, strlen(m->texts.p + at)};
    }
    return best;
}

bool fxi_charsmap_append(fxi_str s, fxi_str text, fxi_buf *out)
{
    char_map m;
    if (!open_map(s, &m)) return false;
    for (size_t at = 0; at < text.n && out->n <= FXI_MAX_NORM_BYTES;) {
        const fxi_str rest = {text.p + at, text.n - at};
        fxi_str to = {rest.p, (size_t)fxi_utf8_len((unsigned char)*rest.p)};
        const size_t n = longest_key(&m, rest, &to);
        if (!fxi_buf_add(out, to.p, to.n)) return false;
        at += n ? n : to.n;
    }
    return true;
}

// ---- steps that look at one character at a time -------------------------------------------------

static bool add_cp(fxi_buf *out, int32_t cp)
{
    char bytes[4];
    return fxi_buf_add(out, bytes, fxi_utf8_put(bytes, (uint32_t)cp));
}

// As in Rust, which published tokenizers use: one letter's lower case is two letters.
static bool put_lower(int32_t cp, fxi_buf *out)
{
    return cp == 0x130 ? fxi_buf_str(out, "i\xCC\x87") : add_cp(out, utf8proc_tolower(cp));
}

static bool put_no_mn(int32_t cp, fxi_buf *out)
{
    return utf8proc_category(cp) == UTF8PROC_CATEGORY_MN || add_cp(out, cp);
}

static bool put_no_mark(int32_t cp, fxi_buf *out)
{
    const utf8proc_category_t of = utf8proc_category(cp);
    return of == UTF8PROC_CATEGORY_MC || of == UTF8PROC_CATEGORY_ME || put_no_mn(cp, out);
}

// Line ends and tabs are white space here, all other characters of category C that are assigned are
// dropped.
static bool put_clean(int32_t cp, fxi_buf *out)
{
    static const bool other[UTF8PROC_CATEGORY_CO + 1] = {
        [UTF8PROC_CATEGORY_CC] = true,
        [UTF8PROC_CATEGORY_CF] = true,
        [UTF8PROC_CATEGORY_CO] = true,
    };
    if (cp == '\t' || cp == '\n' || cp == '\r') return add_cp(out, ' ');
    if (cp == 0xFFFD || other[utf8proc_category(cp)]) return true;
    return add_cp(out, fxi_cp_is_space(cp) ? ' ' : cp);
}

// The blocks of CJK ideographs that BERT's tokenizer knows; its last but two begins late.
static bool put_padded(int32_t cp, fxi_buf *out)
{
    static const struct {
        int32_t first, last;
    } blocks[] = {
        {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
        {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F},
    };
    for (size_t i = 0; cp >= blocks[0].first && i < sizeof blocks / sizeof *blocks; i++)
        if (cp >= blocks[i].first && cp <= blocks[i].last)
            return fxi_buf_str(out, " ") && add_cp(out, cp) && fxi_buf_str(out, " ");
    return add_cp(out, cp);
}

// ASCII has neither marks nor ideographs, so most of it is copied at once. Appends as much of it as
// can be, and returns the bytes.
static size_t put_ascii(fxi_norm_kind kind, fxi_str text, fxi_buf *out, bool *ok)
{
    size_t n = fxi_utf8_ascii(text.p, text.n), i = 0;
    if (kind == FXI_NORM_CLEAN) {
        while (i < n && text.p[i] >= ' ' && text.p[i] != 0x7F) i++;
        n = i;
    }
    *ok = !n || fxi_buf_add(out, text.p, n);
    if (kind != FXI_NORM_LOWERCASE || !*ok) return n;
    for (char *p = out->p + out->n - n; p < out->p + out->n; p++)
        if (*p >= 'A' && *p <= 'Z') *p = (char)(*p + ('a' - 'A'));
    return n;
}

// ---- steps: each appends to the empty *out, or sets *same if nothing changes --------------------

typedef struct norm_run {
    const fxi_norm *step;
    fxi_norm_how how;
    fxi_norm_work *work;
    fx_error *err;
} norm_run;

typedef fx_status norm_fn(const norm_run *r, fxi_str text, fxi_buf *out, bool *same);

static fx_status status_of(const norm_run *r, bool ok)
{
    return ok ? FX_OK : fxi_fail_memory(r->err);
}

static fx_status fail_too_long(const norm_run *r)
{
    return fxi_fail(r->err, FX_EINVAL, "the text becomes too long for the vocabulary's steps");
}

static fx_status change_chars(const norm_run *r, fxi_str text, fxi_buf *out, bool *same)
{
    static bool (*const puts[FXI_NORM_N_KIND])(int32_t cp, fxi_buf * out) = {
        [FXI_NORM_LOWERCASE] = put_lower, [FXI_NORM_STRIP_ACCENTS] = put_no_mark,
        [FXI_NORM_STRIP_MN] = put_no_mn,  [FXI_NORM_CLEAN] = put_clean,
        [FXI_NORM_PAD_HAN] = put_padded,
    };
    const fxi_norm_kind kind = r->step->kind;
    bool ok = fxi_buf_reserve(out, text.n);
    (void)same;
    for (size_t i = 0, len; ok && i < text.n; i += len) {
        const fxi_str rest = {text.p + i, text.n - i};
        len = put_ascii(kind, rest, out, &ok);
        if (!len && ok) ok = puts[kind](fxi_utf8_at(rest.p, rest.n, &len), out);
    }
    return status_of(r, ok);
}

// ---- normal forms -------------------------------------------------------------------------------

enum {
    MAX_GROWTH = 32, // code points that one becomes: at most 18
    MAX_CLASS = 256
};

static const utf8proc_option_t options[] = {
    [FXI_NORM_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
    [FXI_NORM_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
    [FXI_NORM_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
    [FXI_NORM_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
};

static bool is_inert(fxi_norm_kind form, int32_t cp)
{
    if (cp < 0x80 || (cp < 0x300 && form == FXI_NORM_NFC)) return true;
    if (cp >= 0xAC00 && cp <= 0xD7A3)
        return form == FXI_NORM_NFC || form == FXI_NORM_NFKC; // Hangul syllables
    if ((cp >= 0x1100 && cp <= 0x11FF) || (cp >= 0xA960 && cp <= 0xA97F) ||
        (cp >= 0xD7B0 && cp <= 0xD7FF)) // Hangul letters
        return false;
    const utf8proc_property_t *p = utf8proc_get_property(cp);
    return p->decomp_seqindex == UINT16_MAX && !p->combining_class &&
           p->category != UTF8PROC_CATEGORY_MN && p->category != UTF8PROC_CATEGORY_MC;
}

// The end of the inert stretch from `at`, which is copied; *end: the end of the active one after
// it.
static size_t find_active(fxi_norm_kind form, fxi_str text, size_t at, size_t *end)
{
    size_t last = at, len, i = at;
    while (i < text.n) {
        size_t n_ascii = fxi_utf8_ascii(text.p + i, text.n - i);
        if (n_ascii) {
            i += n_ascii;
            last = i - 1;
            continue;
        }
        if (!is_inert(form, fxi_utf8_at(text.p + i, text.n - i, &len))) break;
        last = i;
        i += len;
    }
    size_t from = i < text.n ? last : i;
    for (; i < text.n; i += len)
        if (is_inert(form, fxi_utf8_at(text.p + i, text.n - i, &len))) break;
    *end = i;
    return from;
}

static bool reserve_cps(fxi_norm_work *w, size_t n)
{
    if (n <= w->cap_cp) return true;
    size_t cap = n + w->cap_cp;
    int32_t *p = realloc(w->cp, cap * sizeof *p);
    if (!p) return false;
    w->cp = p;
    w->cap_cp = cap;
    return true;
}

static unsigned class_of(int32_t cp)
{
    return cp < 0x300 ? 0 : utf8proc_get_property(cp)->combining_class;
}

// Sorts each run of marks by class, stably; long ones in linear time: a text may be nothing but
// marks.
static void order_marks(int32_t *cp, size_t n, int32_t *scratch)
{
    for (size_t at = 0, end; at < n; at = end + 1) {
        size_t place[MAX_CLASS + 1] = {0};
        for (end = at; end < n && class_of(cp[end]); end++) continue;
        if (end - at < 2) continue;
        for (size_t i = at; i < end; i++) place[(class_of(cp[i]) & 255) + 1]++;
        for (size_t c = 0; c < MAX_CLASS; c++) place[c + 1] += place[c];
        for (size_t i = at; i < end; i++) scratch[place[class_of(cp[i]) & 255]++] = cp[i];
        memcpy(cp + at, scratch, (end - at) * sizeof *cp);
    }
}

// Decomposes s to w->cp. False: out of memory.
static bool decompose_text(fxi_norm_kind form, fxi_str s, fxi_norm_work *w, size_t *n)
{
    *n = 0;
    for (size_t i = 0, len; i < s.n; i += len) {
        int last = 0;
        int32_t cp = fxi_utf8_at(s.p + i, s.n - i, &len);
        if (!reserve_cps(w, *n + MAX_GROWTH)) return false;
        utf8proc_ssize_t got =
            utf8proc_decompose_char(cp, w->cp + *n, MAX_GROWTH, options[form], &last);
        if (got < 0 || got > MAX_GROWTH) return false;
        *n += (size_t)got;
    }
    return true;
}

static bool append_form(fxi_norm_kind form, fxi_str s, fxi_norm_work *w, fxi_buf *out)
{
    size_t n;
    if (!decompose_text(form, s, w, &n) || !reserve_cps(w, 2 * n)) return false;
    order_marks(w->cp, n, w->cp + n);
    utf8proc_ssize_t left = utf8proc_normalize_utf32(w->cp, (utf8proc_ssize_t)n, options[form]);
    bool ok = true;
    for (utf8proc_ssize_t i = 0; ok && i < left; i++) ok = add_cp(out, w->cp[i]);
    return ok;
}

static fx_status normal_form(const norm_run *r, fxi_str text, fxi_buf *out, bool *same)
{
    const fxi_norm_kind form = r->step->kind;
    size_t end, from = find_active(form, text, 0, &end);
    *same = from == text.n;
    bool ok = *same || fxi_buf_reserve(out, text.n + 1);
    for (size_t at = 0; ok && !*same && at < text.n && out->n <= FXI_MAX_NORM_BYTES; at = end) {
        from = find_active(form, text, at, &end);
        ok = fxi_buf_add(out, text.p + at, from - at) &&
             append_form(form, (fxi_str){text.p + from, end - from}, r->work, out);
    }
    return status_of(r, ok);
}

// ---- other steps --------------------------------------------------------------------------------

static fx_status prepend_text(const norm_run *r, fxi_str text, fxi_buf *out, bool *same)
{
    const fxi_str to = r->step->to;
    const bool there = text.n >= to.n && !memcmp(text.p, to.p, to.n);
    if (!r->how.space || (r->step->kind == FXI_NORM_PREPEND_FIRST && !r->work->front) ||
        (r->step->kind != FXI_NORM_PREPEND && there)) {
        *same = true;
        return FX_OK;
    }
    return status_of(r, fxi_buf_reserve(out, to.n + text.n) && fxi_buf_add(out, to.p, to.n) &&
                            fxi_buf_add(out, text.p, text.n));
}

// The next match of the step's literal or pattern; from = SIZE_MAX: none.
static fx_status next_match(const norm_run *r, fxi_regex_walk *w, fxi_regex_match *m)
{
    const fxi_str what = r->step->from;
    if (r->step->kind == FXI_NORM_REPLACE_REGEX) return fxi_regex_next(w, m, r->err);
    const char *at = w->s + w->at;
    const size_t n = w->n - w->at;
    const char *found = what.n == 1 ? memchr(at, *what.p, n) : memmem(at, n, what.p, what.n);
    *m = (fxi_regex_match){SIZE_MAX, SIZE_MAX};
    if (!found) return FX_OK;
    m->from = (size_t)(found - w->s);
    m->to = w->at = m->from + what.n;
    return FX_OK;
}

static fxi_regex_walk walk_matches(const norm_run *r, fxi_str text)
{
    return (fxi_regex_walk){.re = r->step->regex, .m = r->work->matcher, .s = text.p, .n = text.n};
}

static fx_status replace_matches(const norm_run *r, fxi_str text, fxi_buf *out, bool *same)
{
    fxi_norm_work *w = r->work;
    const fxi_str to = r->step->to;
    const bool by_regex = r->step->kind == FXI_NORM_REPLACE_REGEX;
    size_t copied = 0;
    if (by_regex && !w->matcher && !(w->matcher = fxi_matcher_new())) return status_of(r, false);
    fxi_regex_walk walk = walk_matches(r, text);
    size_t n_out = text.n;
    if (!by_regex) { // literals are counted first: a text that becomes too long takes no memory
        fxi_regex_match m;
        while (next_match(r, &walk, &m) == FX_OK && m.from != SIZE_MAX)
            n_out += to.n - r->step->from.n;
        if (n_out > FXI_MAX_NORM_BYTES) return fail_too_long(r);
        walk = walk_matches(r, text);
    }
    *same = true;
    for (fxi_regex_match m;; copied = m.to) {
        FX_TRY(next_match(r, &walk, &m));
        if (m.from == SIZE_MAX) break;
        if ((*same && !fxi_buf_reserve(out, n_out)) ||
            !fxi_buf_add(out, text.p + copied, m.from - copied) || !fxi_buf_add(out, to.p, to.n))
            return status_of(r, false);
        *same = false;
        if (out->n > FXI_MAX_NORM_BYTES) return fail_too_long(r);
    }
    return status_of(r, *same || fxi_buf_add(out, text.p + copied, text.n - copied));
}

static fx_status strip_spaces(const norm_run *r, fxi_str text, fxi_buf *out, bool *same)
{
    size_t from = 0, to = text.n, len;
    while (r->step->kind == FXI_NORM_STRIP_LEFT && from < to &&
           fxi_cp_is_space(fxi_utf8_at(text.p + from, to - from, &len)))
        from += len;
    while (r->step->kind == FXI_NORM_STRIP_RIGHT && from < to &&
           fxi_cp_is_space(fxi_cp_before(text.p, to, &len)))
        to -= len;
    *same = to - from == text.n;
    return status_of(r, *same || fxi_buf_add(out, text.p + from, to - from));
}

// Marks at the end of the text are removed like spaces.
static fx_status collapse_spaces(const norm_run *r, fxi_str text, fxi_buf *out, bool *same)
{
    bool ok = fxi_buf_reserve(out, text.n + 1), space = true;
    (void)same;
    for (size_t i = 0; ok && i < text.n; i++) {
        if (text.p[i] != ' ' || !space) ok = fxi_buf_add(out, text.p + i, 1);
        space = text.p[i] == ' ';
    }
    for (;;) {
        const fxi_str left = {out->p, out->n};
        if (fxi_str_ends_in(left, " "))
            out->n--;
        else if (fxi_str_ends_in(left, FXI_SPACE_MARK))
            out->n -= FXI_SPACE_MARK_BYTES;
        else
            break;
    }
    return status_of(r, ok);
}

static fx_status map_chars(const norm_run *r, fxi_str text, fxi_buf *out, bool *same)
{
    (void)same;
    return status_of(r, fxi_charsmap_append(r->step->from, text, out));
}

static norm_fn *const steps[FXI_NORM_N_KIND] = {
    [FXI_NORM_NFC] = normal_form,
    [FXI_NORM_NFD] = normal_form,
    [FXI_NORM_NFKC] = normal_form,
    [FXI_NORM_NFKD] = normal_form,
    [FXI_NORM_LOWERCASE] = change_chars,
    [FXI_NORM_STRIP_ACCENTS] = change_chars,
    [FXI_NORM_STRIP_MN] = change_chars,
    [FXI_NORM_CLEAN] = change_chars,
    [FXI_NORM_PAD_HAN] = change_chars,
    [FXI_NORM_PREPEND] = prepend_text,
    [FXI_NORM_PREPEND_FIRST] = prepend_text,
    [FXI_NORM_PREPEND_OTHER] = prepend_text,
    [FXI_NORM_REPLACE] = replace_matches,
    [FXI_NORM_REPLACE_REGEX] = replace_matches,
    [FXI_NORM_STRIP_LEFT] = strip_spaces,
    [FXI_NORM_STRIP_RIGHT] = strip_spaces,
    [FXI_NORM_COLLAPSE] = collapse_spaces,
    [FXI_NORM_CHARSMAP] = map_chars,
};

// ---- the front: bytes that come from the first character of the input ---------------------------

// What replaces a match is in the front if the match ends there.
static fx_status replaced_front(const norm_run *r, fxi_str text, size_t *front)
{
    fxi_regex_walk walk = walk_matches(r, text);
    size_t n = 0, done = 0;
    for (fxi_regex_match m; walk.at <= *front && walk.at <= text.n; done = m.to) {
        FX_TRY(next_match(r, &walk, &m));
        if (m.from == SIZE_MAX || m.from > *front || (m.from == *front && m.to > m.from)) break;
        n += m.from - done;
        if (m.to > *front) {
            *front = n;
            return FX_OK;
        }
        n += r->step->to.n;
    }
    *front = n + *front - done;
    return FX_OK;
}

// The front of what the step made of a text, n_out bytes.
static fx_status move_front(const norm_run *r, fxi_str text, size_t n_out)
{
    size_t *front = &r->work->front;
    const fxi_norm_kind kind = r->step->kind;
    if (kind == FXI_NORM_REPLACE || kind == FXI_NORM_REPLACE_REGEX)
        return replaced_front(r, text, front);
    if (kind == FXI_NORM_STRIP_LEFT) {
        const size_t n_gone = text.n - n_out;
        *front = *front > n_gone ? *front - n_gone : 0;
    } else if (kind == FXI_NORM_STRIP_RIGHT) {
        *front = *front < n_out ? *front : n_out;
    } else if (n_out == text.n + r->step->to.n && r->step->to.n) { // put in front
        *front += r->step->to.n;
    } else {
        fxi_buf alone = {0};
        bool same = false;
        fx_status st = steps[kind](r, (fxi_str){text.p, *front}, &alone, &same);
        if (!same) *front = alone.n;
        fxi_buf_free(&alone);
        return st;
    }
    return FX_OK;
}

fx_status fxi_norm_run(const fxi_norm *step, size_t n, fxi_norm_how how, fxi_str text,
                       fxi_norm_work *w, fxi_str *out, fx_error *err)
{
    w->front = how.front;
    for (const fxi_norm *end = step + n; step < end && text.n; step++) {
        if (step->late != how.late) continue;
        norm_run r = {.step = step, .how = how, .work = w, .err = err};
        fxi_buf *to = text.p == w->a.p ? &w->b : &w->a;
        bool same = false;
        fxi_buf_clear(to);
        FX_TRY(steps[step->kind](&r, text, to, &same));
        if (!same && w->front) FX_TRY(move_front(&r, text, to->n));
        if (!same) text = (fxi_str){to->p, to->n};
        // To the end of a character: one that was composed with the next.
        while (w->front && w->front < text.n && ((unsigned char)text.p[w->front] & 0xC0) == 0x80)
            w->front++;
        if (w->front > text.n) w->front = text.n;
        if (text.n > FXI_MAX_NORM_BYTES) return fail_too_long(&r);
    }
    *out = text;
    return FX_OK;
}

void fxi_norm_work_free(fxi_norm_work *w)
{
    fxi_buf_free(&w->a);
    fxi_buf_free(&w->b);
    free(w->cp);
    fxi_matcher_free(w->matcher);
    *w = (fxi_norm_work){0};
}
