// jinja_strings.c - methods of strings as Python's, and filters of strings as Jinja's. Positions
// count characters. A filter takes str() of any value where a method has a string.
#include <string.h>
#include <utf8proc.h>

#include "base/text/utf8.h"
#include "format/jinja/jinja_run.h"

// ---- splitting ----------------------------------------------------------------------------------

typedef struct text_pieces { // strings found so far
    fxi_jval *v;
    size_t n, cap;
} text_pieces;

static fx_status add_piece(fxi_jrun *r, text_pieces *p, const fxi_jstr *s, size_t from, size_t to)
{
    FX_TRY(fxi_jrun_grow(r, &p->v, sizeof *p->v, p->n, &p->cap));
    FX_TRY(fxi_jrun_work(r, 0));
    return fxi_jstr_part(r, s, from, to - from, &p->v[p->n++]);
}

static size_t char_before(const fxi_jstr *s, size_t at)
{
    for (at--; (s->p[at] & 0xC0) == 0x80;) at--;
    return at;
}

static bool is_space_at(const fxi_jstr *s, size_t at, size_t *n)
{
    return fxi_jchar_is_space(fxi_jstr_char_at(s, at, n));
}

static fx_status split_words(fxi_jrun *r, const fxi_jstr *s, uint64_t most, text_pieces *p)
{
    for (size_t at = 0, end, n; at < s->n; at = end) {
        end = at;
        if (is_space_at(s, at, &n)) {
            end += n;
            continue;
        }
        if (p->n == most) end = s->n;
        while (end < s->n && !is_space_at(s, end, &n)) end += n;
        FX_TRY(add_piece(r, p, s, at, end));
    }
    return FX_OK;
}

static fx_status rsplit_words(fxi_jrun *r, const fxi_jstr *s, uint64_t most, text_pieces *p)
{
    fxi_jstr left = *s; // begins where s does
    while (left = fxi_jstr_strip(&left, NULL, false, true), left.n) {
        size_t begin = p->n == most ? 0 : left.n, n;
        while (begin && !is_space_at(s, char_before(s, begin), &n)) begin = char_before(s, begin);
        FX_TRY(add_piece(r, p, s, begin, left.n));
        left.n = begin;
    }
    return FX_OK;
}

static fx_status split_by(fxi_jrun *r, const fxi_jstr *s, const fxi_jstr *by, uint64_t most,
                          bool from_right, text_pieces *p)
{
    size_t from = 0, to = s->n, at;
    while (p->n < most) {
        at = from_right ? fxi_jstr_rfind(s, by, 0, to) : fxi_jstr_find(s, by, from, to);
        if (at == SIZE_MAX) break;
        FX_TRY(from_right ? add_piece(r, p, s, at + by->n, to) : add_piece(r, p, s, from, at));
        if (from_right)
            to = at;
        else
            from = at + by->n;
    }
    return add_piece(r, p, s, from, to);
}

// As str.splitlines, with or without the ends of lines.
static fx_status split_lines(fxi_jrun *r, const fxi_jstr *s, bool keep_ends, text_pieces *p)
{
    size_t from = 0, n;
    FX_TRY(fxi_jrun_work_chars(r, s->n, 0));
    for (size_t at = 0; at < s->n; at += n) {
        const uint32_t c = fxi_jstr_char_at(s, at, &n);
        if ((c < '\n' || c > '\r') && (c < 0x1C || c > 0x1E) && c != 0x85 && c != 0x2028 &&
            c != 0x2029)
            continue;
        if (s->p[at] == '\r' && at + 1 < s->n && s->p[at + 1] == '\n') n = 2;
        FX_TRY(add_piece(r, p, s, from, keep_ends ? at + n : at));
        from = at + n;
    }
    return from < s->n ? add_piece(r, p, s, from, s->n) : FX_OK;
}

// ---- case ---------------------------------------------------------------------------------------

// The character in upper ('u'), lower ('l') or title case ('t').
static fx_status add_cased(fxi_jrun *r, fxi_jout *o, uint32_t c, char how, bool own)
{
    utf8proc_int32_t u = (utf8proc_int32_t)c;
    char bytes[4];
    if (c == 0xDF && how != 'l') return fxi_jout_add_bytes(r, o, how == 'u' ? "SS" : "Ss", 2, own);
    u = how == 'u' ? utf8proc_toupper(u) : how == 'l' ? utf8proc_tolower(u) : utf8proc_totitle(u);
    return fxi_jout_add_bytes(r, o, bytes, fxi_utf8_put(bytes, (uint32_t)u), own);
}

fx_status fxi_jstr_recase(fxi_jrun *r, const fxi_jstr *s, char first, char how, fxi_jval *out)
{
    fxi_jout o = {0};
    for (size_t at = 0, n; at < s->n; at += n) {
        uint32_t c = fxi_jstr_char_at(s, at, &n);
        FX_TRY(add_cased(r, &o, c, at ? how : first, fxi_jstr_owns(s, at, n)));
    }
    return fxi_jout_finish(r, &o, out);
}

// upper, lower, capitalize: row->how is 'u', 'l', 't'
FXI_JROUTINE(str_case)
{
    const char how = (char)c->row->how;
    return fxi_jstr_recase(r, c->self.s, how, how == 't' ? 'l' : how, out);
}

// A word is a run of characters that have case; of the filter (row->how: 'u', the method: 't') one
// begins at the start of the text and after white space, '-' and opening brackets.
FXI_JROUTINE(str_title)
{
    const fxi_jstr *s = c->self.s;
    const char how = (char)c->row->how;
    fxi_jout o = {0};
    bool inside = false;
    for (size_t at = 0, n; at < s->n; at += n) {
        const uint32_t ch = fxi_jstr_char_at(s, at, &n);
        const utf8proc_int32_t u = (utf8proc_int32_t)ch;
        FX_TRY(add_cased(r, &o, ch, inside ? 'l' : how, fxi_jstr_owns(s, at, n)));
        if (how == 'u')
            inside = !fxi_jchar_is_space(ch) && (!ch || ch >= 128 || !strchr("-({[<", (int)ch));
        else
            inside = utf8proc_isupper(u) || utf8proc_islower(u) ||
                     utf8proc_category(u) == UTF8PROC_CATEGORY_LT;
    }
    return fxi_jout_finish(r, &o, out);
}

// ---- searching ----------------------------------------------------------------------------------

// Bytes from .. to of the string, given in characters by arguments 1 and 2.
static fx_status search_window(fxi_jrun *r, const fxi_jcall *c, size_t *from, size_t *to)
{
    const fxi_jstr *s = c->self.s;
    FX_TRY(fxi_jrun_work(r, 4 * s->n));
    *from = 0;
    *to = s->n;
    if (!fxi_jcall_given(c, 1) && !fxi_jcall_given(c, 2)) return FX_OK;
    const int64_t n = (int64_t)fxi_utf8_count(s->p, s->n);
    int64_t bound[2] = {fxi_jcall_int(c, 1, 0), fxi_jcall_int(c, 2, n)};
    for (int k = 0; k < 2; k++) {
        if (bound[k] < 0) bound[k] += n;
        if (bound[k] < 0) bound[k] = 0;
    }
    *from = bound[0] > n ? s->n + 1 : fxi_jstr_byte_of(s, (size_t)bound[0]);
    *to = fxi_jstr_byte_of(s, bound[1] > n ? (size_t)n : (size_t)bound[1]);
    return FX_OK;
}

static bool text_matches(const fxi_jstr *s, const fxi_jstr *what, size_t from, size_t to,
                         bool at_end)
{
    if (from > to || what->n > to - from) return false;
    return !memcmp(s->p + (at_end ? to - what->n : from), what->p, what->n);
}

// startswith, endswith (row->how: 1). The argument may be a tuple of strings.
FXI_JROUTINE(str_begins)
{
    size_t from, to;
    fxi_jseq any = {&c->arg[0], 1};
    bool yes = false;
    FX_TRY(search_window(r, c, &from, &to));
    if (c->arg[0].type == FXI_JVAL_TUPLE) any = *c->arg[0].seq;
    for (size_t i = 0; i < any.n && !yes; i++) {
        fxi_jval one = any.v[i];
        FX_TRY(fxi_jcall_need(r, c, 's', &one));
        FX_TRY(fxi_jrun_work(r, one.s->n));
        yes = text_matches(c->self.s, one.s, from, to, c->row->how);
    }
    *out = fxi_jval_bool(yes);
    return FX_OK;
}

FXI_JROUTINE(str_find)
{
    const fxi_jstr *s = c->self.s;
    size_t from, to;
    FX_TRY(search_window(r, c, &from, &to));
    const size_t at = fxi_jstr_find(s, c->arg[0].s, from, to);
    *out = fxi_jval_int(at == SIZE_MAX ? -1 : (int64_t)fxi_utf8_count(s->p, at));
    return FX_OK;
}

// ---- cutting, splitting, joining ----------------------------------------------------------------

enum { LEFT = 1, RIGHT = 2 };

FXI_JROUTINE(str_strip)
{
    const fxi_jstr *chars = fxi_jcall_str(c, 0);
    FX_TRY(fxi_jrun_work_chars(r, c->self.s->n, chars ? chars->n : 0));
    fxi_jstr rest = fxi_jstr_strip(c->self.s, chars, c->row->how & LEFT, c->row->how & RIGHT);
    return fxi_jstr_make(r, rest.p, rest.own, rest.n, out);
}

// removeprefix, removesuffix (row->how: 1)
FXI_JROUTINE(str_remove)
{
    const fxi_jstr *s = c->self.s, *what = c->arg[0].s;
    FX_TRY(fxi_jrun_work(r, what->n));
    *out = c->self;
    if (!text_matches(s, what, 0, s->n, c->row->how)) return FX_OK;
    return fxi_jstr_part(r, s, c->row->how ? 0 : what->n, s->n - what->n, out);
}

// split, rsplit (row->how: 1)
FXI_JROUTINE(str_split)
{
    const fxi_jstr *s = c->self.s, *by = fxi_jcall_str(c, 0);
    const int64_t limit = fxi_jcall_int(c, 1, -1);
    const uint64_t most = limit < 0 ? UINT64_MAX : (uint64_t)limit;
    const bool from_right = c->row->how;
    text_pieces p = {0};
    if (by && !by->n) return fxi_jrun_fail(r, "%s: the separator is empty", c->row->name);
    FX_TRY(fxi_jrun_work_chars(r, s->n, by && from_right ? by->n : 0));
    FX_TRY(by           ? split_by(r, s, by, most, from_right, &p)
           : from_right ? rsplit_words(r, s, most, &p)
                        : split_words(r, s, most, &p));
    for (size_t i = 0; from_right && i < p.n / 2; i++) {
        fxi_jval v = p.v[i];
        p.v[i] = p.v[p.n - 1 - i];
        p.v[p.n - 1 - i] = v;
    }
    return fxi_jval_make_seq(r, FXI_JVAL_LIST, p.v, p.n, out);
}

FXI_JROUTINE(str_splitlines)
{
    text_pieces p = {0};
    FX_TRY(split_lines(r, c->self.s, fxi_jcall_true(c, 0), &p));
    return fxi_jval_make_seq(r, FXI_JVAL_LIST, p.v, p.n, out);
}

FXI_JROUTINE(str_join)
{
    fxi_jseq items;
    fxi_jout o = {0};
    FX_TRY(fxi_jval_items(r, c->arg[0], &items));
    for (size_t i = 0; i < items.n; i++) {
        if (items.v[i].type != FXI_JVAL_STR)
            return fxi_jrun_fail(r, "join: expected strings, got a %s",
                                 fxi_jval_type_name(items.v[i]));
        if (i) FX_TRY(fxi_jout_add(r, &o, c->self.s));
        FX_TRY(fxi_jout_add(r, &o, items.v[i].s));
    }
    return fxi_jout_finish(r, &o, out);
}

// ---- replacing, indenting -----------------------------------------------------------------------

FXI_JROUTINE(str_replace)
{
    const fxi_jstr *s = c->self.s, *old = c->arg[0].s, *by = c->arg[1].s;
    const int64_t limit = fxi_jcall_int(c, 2, -1);
    uint64_t most = limit < 0 ? UINT64_MAX : (uint64_t)limit;
    fxi_jout o = {0};
    size_t from = 0, at, n;
    FX_TRY(fxi_jrun_work(r, 4 * s->n));
    *out = fxi_jval_str(s);
    if (!old->n) { // an empty text occurs before every character and after the last one
        for (; most && from < s->n; most--, from += n) {
            fxi_jstr_char_at(s, from, &n);
            FX_TRY(fxi_jout_add(r, &o, by));
            FX_TRY(fxi_jout_add_part(r, &o, s, from, n));
        }
        if (most) FX_TRY(fxi_jout_add(r, &o, by));
    } else {
        for (; most && (at = fxi_jstr_find(s, old, from, s->n)) != SIZE_MAX; most--) {
            FX_TRY(fxi_jout_add_part(r, &o, s, from, at - from));
            FX_TRY(fxi_jout_add(r, &o, by));
            from = at + old->n;
        }
        if (!from) return FX_OK;
    }
    FX_TRY(fxi_jout_add_part(r, &o, s, from, s->n - from));
    return fxi_jout_finish(r, &o, out);
}

fx_status fxi_jcall_blanks(fxi_jrun *r, const fxi_jcall *c, int i, const fxi_jstr **out)
{
    fxi_jval v = c->arg[i];
    fxi_jout o = {0};
    if (v.type != FXI_JVAL_STR) {
        FX_TRY(fxi_jcall_need(r, c, 'i', &v));
        for (int64_t k = 0, n = fxi_jval_to_int(v); k < n; k++)
            FX_TRY(fxi_jout_add_bytes(r, &o, " ", 1, true));
        FX_TRY(fxi_jout_finish(r, &o, &v));
    }
    *out = v.s;
    return FX_OK;
}

FXI_JROUTINE(filter_indent)
{
    static const fxi_jstr newline = {.p = "\n", .n = 1},
                          four = {.p = "    ", .own = "\1\1\1\1", .n = 4};
    const fxi_jstr *s = c->self.s, *by = &four;
    const bool first = fxi_jcall_true(c, 1), blank = fxi_jcall_true(c, 2);
    fxi_jval text;
    text_pieces lines = {0};
    fxi_jout o = {0};
    if (fxi_jcall_given(c, 0)) FX_TRY(fxi_jcall_blanks(r, c, 0, &by));
    FX_TRY(fxi_jstr_concat(r, s, &newline, &text)); // so that an empty last line counts
    FX_TRY(split_lines(r, text.s, false, &lines));
    for (size_t i = 0; i < lines.n; i++) {
        const fxi_jstr *line = lines.v[i].s;
        if (i) FX_TRY(fxi_jout_add_bytes(r, &o, "\n", 1, fxi_jstr_owns(s, 0, s->n)));
        if (i ? blank || line->n : first) FX_TRY(fxi_jout_add(r, &o, by));
        FX_TRY(fxi_jout_add(r, &o, line));
    }
    return fxi_jout_finish(r, &o, out);
}

FXI_JROUTINE(filter_string)
{
    (void)r;
    *out = c->self;
    return FX_OK;
}

// ---- the tables ---------------------------------------------------------------------------------

const fxi_jroutine fxi_jlibrary_str_methods[] = {
    {"capitalize", .run = str_case, .how = 't'},
    {"endswith", .run = str_begins, .types = "vII", .n_must = 1, .how = 1},
    {"find", .run = str_find, .types = "sII", .n_must = 1},
    {"join", .run = str_join, .types = "d", .n_must = 1},
    {"lower", .run = str_case, .how = 'l'},
    {"lstrip", .run = str_strip, .types = "S", .how = LEFT},
    {"removeprefix", .run = str_remove, .types = "s", .n_must = 1},
    {"removesuffix", .run = str_remove, .types = "s", .n_must = 1, .how = 1},
    {"replace", .run = str_replace, .types = "ssi", .n_must = 2},
    {"rsplit", .run = str_split, .types = "Si", .param = {"sep", "maxsplit"}, .how = 1},
    {"rstrip", .run = str_strip, .types = "S", .how = RIGHT},
    {"split", .run = str_split, .types = "Si", .param = {"sep", "maxsplit"}},
    {"splitlines", .run = str_splitlines, .types = "v", .param = {"keepends"}},
    {"startswith", .run = str_begins, .types = "vII", .n_must = 1},
    {"strip", .run = str_strip, .types = "S", .how = LEFT | RIGHT},
    {"title", .run = str_title, .how = 't'},
    {"upper", .run = str_case, .how = 'u'},
    {.name = NULL},
};

const fxi_jroutine fxi_jlibrary_str_filters[] = {
    {"capitalize", .run = str_case, .self = 't', .how = 't'},
    {"indent", .run = filter_indent, .self = 's', .types = "vvv",
     .param = {"width", "first", "blank"}},
    {"lower", .run = str_case, .self = 't', .how = 'l'},
    {"replace", .run = str_replace, .self = 't', .types = "ttI", .n_must = 2,
     .param = {"old", "new", "count"}},
    {"safe", .run = filter_string, .self = 't'},
    {"string", .run = filter_string, .self = 't'},
    {"title", .run = str_title, .self = 't', .how = 'u'},
    {"trim", .run = str_strip, .self = 't', .types = "S", .param = {"chars"}, .how = LEFT | RIGHT},
    {"upper", .run = str_case, .self = 't', .how = 'u'},
    {.name = NULL},
};
