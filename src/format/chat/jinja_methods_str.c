// jinja_methods_str.c - methods of strings, as Python's. Positions count characters.
#include <string.h>

#include "format/chat/jinja_impl.h"

#define METHOD(name) static fx_status name(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)

// ---- searching ----------------------------------------------------------------------------------

// Bytes from .. to of the string: what two arguments from number i on say, in characters.
static fx_status window(fxi_jrun *r, const fxi_jcall *c, int i, size_t *from, size_t *to)
{
    const fxi_jstr *s = c->self.s;
    int64_t bound[2] = {0, INT64_MAX};
    FX_TRY(fxi_j_work(r, 4 * s->n));
    *from = 0;
    *to = s->n;
    if (!fxi_j_given(c, i) && !fxi_j_given(c, i + 1)) return FX_OK;
    const int64_t n = (int64_t)fxi_j_n_char(s);
    for (int k = 0; k < 2; k++) {
        if (fxi_j_given(c, i + k)) FX_TRY(fxi_j_arg_int(r, c, i + k, 0, &bound[k]));
        if (bound[k] < 0) bound[k] += n;
        if (bound[k] < 0) bound[k] = 0;
    }
    *from = bound[0] > n ? s->n + 1 : fxi_j_byte_of(s, (size_t)bound[0]);
    *to = fxi_j_byte_of(s, bound[1] > n ? (size_t)n : (size_t)bound[1]);
    return FX_OK;
}

static bool matches(const fxi_jstr *s, const fxi_jstr *what, size_t from, size_t to, bool at_end)
{
    if (from > to || what->n > to - from) return false;
    return !memcmp(s->p + (at_end ? to - what->n : from), what->p, what->n);
}

// startswith, endswith (row->how: 1). The argument may be a tuple of strings.
METHOD(str_begins)
{
    size_t from, to;
    fxi_jseq one = {&c->arg[0], 1};
    bool yes = false;
    FX_TRY(window(r, c, 1, &from, &to));
    if (c->arg[0].type == FXI_J_TUPLE) one = *c->arg[0].seq;
    for (size_t i = 0; i < one.n && !yes; i++) {
        FX_TRY(fxi_j_defined(r, one.v[i]));
        if (one.v[i].type != FXI_J_STR)
            return fxi_j_fail(r, "%s: wants a string, got a %s", c->row->name,
                              fxi_j_type_name(one.v[i]));
        FX_TRY(fxi_j_work(r, one.v[i].s->n));
        yes = matches(c->self.s, one.v[i].s, from, to, c->row->how);
    }
    *out = fxi_j_bool(yes);
    return FX_OK;
}

enum { FROM_RIGHT = 1, MUST_FIND = 2 };

// find, rfind, index, rindex
METHOD(str_find)
{
    const fxi_jstr *s = c->self.s, *what;
    size_t from, to;
    FX_TRY(fxi_j_arg_str(r, c, 0, &what));
    FX_TRY(window(r, c, 1, &from, &to));
    if (c->row->how & FROM_RIGHT) FX_TRY(fxi_j_work_chars(r, s->n, what->n));
    size_t at =
        c->row->how & FROM_RIGHT ? fxi_j_rfind(s, what, from, to) : fxi_j_find(s, what, from, to);
    if (at == SIZE_MAX && c->row->how & MUST_FIND)
        return fxi_j_fail(r, "%s: it is not in there", c->row->name);
    fxi_jstr before = {.p = s->p, .n = at == SIZE_MAX ? 0 : at};
    *out = fxi_j_int(at == SIZE_MAX ? -1 : (int64_t)fxi_j_n_char(&before));
    return FX_OK;
}

METHOD(str_count)
{
    const fxi_jstr *s = c->self.s, *what;
    size_t from, to;
    int64_t n = 0;
    FX_TRY(fxi_j_arg_str(r, c, 0, &what));
    FX_TRY(window(r, c, 1, &from, &to));
    if (!what->n) {
        fxi_jstr part = {.p = s->p + from, .n = from <= to ? to - from : 0};
        *out = fxi_j_int(from > to ? 0 : (int64_t)fxi_j_n_char(&part) + 1);
        return FX_OK;
    }
    for (size_t at; (at = fxi_j_find(s, what, from, to)) != SIZE_MAX; from = at + what->n) n++;
    *out = fxi_j_int(n);
    return FX_OK;
}

// ---- cutting off --------------------------------------------------------------------------------

enum { LEFT = 1, RIGHT = 2 };

METHOD(str_strip)
{
    const fxi_jstr *chars = NULL;
    if (fxi_j_given(c, 0)) FX_TRY(fxi_j_arg_str(r, c, 0, &chars));
    FX_TRY(fxi_j_work_chars(r, c->self.s->n, chars ? chars->n : 0));
    fxi_jstr rest = fxi_j_stripped(c->self.s, chars, c->row->how & LEFT, c->row->how & RIGHT);
    return fxi_j_str(r, rest.p, rest.own, rest.n, out);
}

// removeprefix, removesuffix (row->how: 1)
METHOD(str_remove)
{
    const fxi_jstr *s = c->self.s, *what;
    FX_TRY(fxi_j_arg_str(r, c, 0, &what));
    FX_TRY(fxi_j_work(r, what->n));
    *out = c->self;
    if (!matches(s, what, 0, s->n, c->row->how)) return FX_OK;
    return fxi_j_part(r, s, c->row->how ? 0 : what->n, s->n - what->n, out);
}

// ---- splitting ----------------------------------------------------------------------------------

typedef struct pieces { // strings found so far
    fxi_jval *v;
    size_t n, cap;
} pieces;

static fx_status add_piece(fxi_jrun *r, pieces *p, const fxi_jstr *s, size_t from, size_t to)
{
    if (p->n == p->cap) {
        fxi_jval *more;
        const size_t cap = 2 * p->cap + 8;
        FX_TRY(fxi_j_take(r, cap * sizeof *more, &more));
        if (p->n) memcpy(more, p->v, p->n * sizeof *more);
        p->v = more;
        p->cap = cap;
    }
    FX_TRY(fxi_j_work(r, 0));
    return fxi_j_part(r, s, from, to - from, &p->v[p->n++]);
}

static size_t behind_space(const fxi_jstr *s, size_t at)
{
    fxi_jstr rest = {.p = s->p + at, .n = s->n - at};
    return s->n - fxi_j_stripped(&rest, NULL, true, false).n;
}

static size_t word_end(const fxi_jstr *s, size_t at)
{
    size_t n;
    while (at < s->n && !fxi_j_is_space(fxi_j_char(s, at, &n))) at += n;
    return at;
}

static fx_status split_words(fxi_jrun *r, const fxi_jstr *s, uint64_t most, pieces *p)
{
    for (size_t at = behind_space(s, 0); at < s->n; at = behind_space(s, at)) {
        size_t end = p->n < most ? word_end(s, at) : s->n;
        FX_TRY(add_piece(r, p, s, at, end));
        at = end;
    }
    return FX_OK;
}

static size_t word_begin(const fxi_jstr *s, size_t end)
{
    while (end) {
        size_t at = end - 1, n;
        while ((s->p[at] & 0xC0) == 0x80) at--;
        if (fxi_j_is_space(fxi_j_char(s, at, &n))) break;
        end = at;
    }
    return end;
}

static fx_status rsplit_words(fxi_jrun *r, const fxi_jstr *s, uint64_t most, pieces *p)
{
    fxi_jstr left = *s;
    while (left = fxi_j_stripped(&left, NULL, false, true), left.n) {
        size_t begin = p->n < most ? word_begin(&left, left.n) : 0;
        FX_TRY(add_piece(r, p, s, begin, left.n));
        left.n = begin;
    }
    return FX_OK;
}

static fx_status split_by(fxi_jrun *r, const fxi_jstr *s, const fxi_jstr *by, uint64_t most,
                          pieces *p)
{
    size_t from = 0, at;
    while (p->n < most && (at = fxi_j_find(s, by, from, s->n)) != SIZE_MAX) {
        FX_TRY(add_piece(r, p, s, from, at));
        from = at + by->n;
    }
    return add_piece(r, p, s, from, s->n);
}

static fx_status rsplit_by(fxi_jrun *r, const fxi_jstr *s, const fxi_jstr *by, uint64_t most,
                           pieces *p)
{
    size_t to = s->n, at;
    while (p->n < most && (at = fxi_j_rfind(s, by, 0, to)) != SIZE_MAX) {
        FX_TRY(add_piece(r, p, s, at + by->n, to));
        to = at;
    }
    return add_piece(r, p, s, 0, to);
}

static void turn_round(pieces *p)
{
    for (size_t i = 0; i < p->n / 2; i++) {
        fxi_jval v = p->v[i];
        p->v[i] = p->v[p->n - 1 - i];
        p->v[p->n - 1 - i] = v;
    }
}

// split, rsplit (row->how: 1)
METHOD(str_split)
{
    const fxi_jstr *by = NULL;
    int64_t most;
    pieces p = {0};
    if (fxi_j_given(c, 0)) FX_TRY(fxi_j_arg_str(r, c, 0, &by));
    FX_TRY(fxi_j_work_chars(r, c->self.s->n, by && c->row->how ? by->n : 0));
    FX_TRY(fxi_j_arg_int(r, c, 1, -1, &most));
    if (by && !by->n) return fxi_j_fail(r, "%s: the separator is empty", c->row->name);
    const uint64_t n = most < 0 ? UINT64_MAX : (uint64_t)most;
    if (c->row->how) {
        FX_TRY(by ? rsplit_by(r, c->self.s, by, n, &p) : rsplit_words(r, c->self.s, n, &p));
        turn_round(&p);
    } else {
        FX_TRY(by ? split_by(r, c->self.s, by, n, &p) : split_words(r, c->self.s, n, &p));
    }
    return fxi_j_seq(r, FXI_J_LIST, p.v, p.n, out);
}

static bool ends_line(uint32_t c)
{
    return (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

METHOD(str_splitlines)
{
    const fxi_jstr *s = c->self.s;
    pieces p = {0};
    size_t from = 0, n;
    FX_TRY(fxi_j_work_chars(r, s->n, 0));
    for (size_t at = 0; at < s->n; at += n) {
        if (!ends_line(fxi_j_char(s, at, &n))) continue;
        if (s->p[at] == '\r' && at + 1 < s->n && s->p[at + 1] == '\n') n = 2;
        FX_TRY(add_piece(r, &p, s, from, fxi_j_arg_true(c, 0) ? at + n : at));
        from = at + n;
    }
    if (from < s->n) FX_TRY(add_piece(r, &p, s, from, s->n));
    return fxi_j_seq(r, FXI_J_LIST, p.v, p.n, out);
}

// partition, rpartition (row->how: 1)
METHOD(str_partition)
{
    const fxi_jstr *s = c->self.s, *by;
    fxi_jval *v;
    FX_TRY(fxi_j_arg_str(r, c, 0, &by));
    FX_TRY(fxi_j_work_chars(r, s->n, c->row->how ? by->n : 0));
    if (!by->n) return fxi_j_fail(r, "%s: the separator is empty", c->row->name);
    FX_TRY(fxi_j_take(r, 3 * sizeof *v, &v));
    size_t at = c->row->how ? fxi_j_rfind(s, by, 0, s->n) : fxi_j_find(s, by, 0, s->n);
    size_t n_by = by->n;
    if (at == SIZE_MAX) {
        at = c->row->how ? 0 : s->n;
        n_by = 0;
    }
    FX_TRY(fxi_j_part(r, s, 0, at, &v[0]));
    FX_TRY(fxi_j_part(r, s, at, n_by, &v[1]));
    FX_TRY(fxi_j_part(r, s, at + n_by, s->n - at - n_by, &v[2]));
    return fxi_j_seq(r, FXI_J_TUPLE, v, 3, out);
}

// ---- joining and replacing ----------------------------------------------------------------------

METHOD(str_join)
{
    fxi_jseq items;
    fxi_jout o = {0};
    FX_TRY(fxi_j_defined(r, c->arg[0]));
    FX_TRY(fxi_j_items(r, c->arg[0], &items));
    for (size_t i = 0; i < items.n; i++) {
        if (items.v[i].type != FXI_J_STR)
            return fxi_j_fail(r, "join: wants strings, got a %s", fxi_j_type_name(items.v[i]));
        if (i) FX_TRY(fxi_jout_add(r, &o, c->self.s));
        FX_TRY(fxi_jout_add(r, &o, items.v[i].s));
    }
    return fxi_jout_done(r, &o, out);
}

// An empty text stands in front of every character and behind the last one.
static fx_status put_between(fxi_jrun *r, const fxi_jstr *s, const fxi_jstr *by, uint64_t most,
                             fxi_jout *o)
{
    size_t at = 0, n;
    for (; most && at < s->n; most--, at += n) {
        fxi_j_char(s, at, &n);
        FX_TRY(fxi_jout_add(r, o, by));
        FX_TRY(fxi_jout_part(r, o, s, at, n));
    }
    if (most) FX_TRY(fxi_jout_add(r, o, by));
    return fxi_jout_part(r, o, s, at, s->n - at);
}

METHOD(str_replace)
{
    const fxi_jstr *s = c->self.s, *old, *by;
    int64_t count;
    fxi_jout o = {0};
    FX_TRY(fxi_j_work(r, 4 * s->n));
    FX_TRY(fxi_j_arg_str(r, c, 0, &old));
    FX_TRY(fxi_j_arg_str(r, c, 1, &by));
    FX_TRY(fxi_j_arg_int(r, c, 2, -1, &count));
    uint64_t most = count < 0 ? UINT64_MAX : (uint64_t)count;
    if (!old->n) {
        FX_TRY(put_between(r, s, by, most, &o));
        return fxi_jout_done(r, &o, out);
    }
    size_t from = 0, at;
    for (; most && (at = fxi_j_find(s, old, from, s->n)) != SIZE_MAX; most--) {
        FX_TRY(fxi_jout_part(r, &o, s, from, at - from));
        FX_TRY(fxi_jout_add(r, &o, by));
        from = at + old->n;
    }
    *out = c->self;
    if (!from) return FX_OK;
    FX_TRY(fxi_jout_part(r, &o, s, from, s->n - from));
    return fxi_jout_done(r, &o, out);
}

// ---- padding ------------------------------------------------------------------------------------

static fx_status pad(fxi_jrun *r, fxi_jout *o, int64_t n, const fxi_jstr *fill)
{
    for (; n > 0; n--) FX_TRY(fxi_jout_add(r, o, fill));
    return FX_OK;
}

// ljust, rjust, center: row->how says on which sides.
METHOD(str_pad)
{
    static const fxi_jstr blank = {.p = " ", .own = "\1", .n = 1};
    const fxi_jstr *fill = &blank;
    int64_t width;
    fxi_jout o = {0};
    FX_TRY(fxi_j_arg_int(r, c, 0, 0, &width));
    if (width < 0) width = 0;
    if (c->arg[1].type != FXI_J_ABSENT) FX_TRY(fxi_j_arg_str(r, c, 1, &fill));
    if (fxi_j_n_char(fill) != 1) return fxi_j_fail(r, "%s: fills with one character", c->row->name);
    int64_t more = width - (int64_t)fxi_j_n_char(c->self.s);
    if (more < 0) more = 0;
    int64_t left = c->row->how == LEFT    ? more
                   : c->row->how == RIGHT ? 0
                                          : more / 2 + (more & width & 1);
    FX_TRY(pad(r, &o, left, fill));
    FX_TRY(fxi_jout_add(r, &o, c->self.s));
    FX_TRY(pad(r, &o, more - left, fill));
    return fxi_jout_done(r, &o, out);
}

METHOD(str_zfill)
{
    static const fxi_jstr zero = {.p = "0", .own = "\1", .n = 1};
    const fxi_jstr *s = c->self.s;
    int64_t width;
    fxi_jout o = {0};
    FX_TRY(fxi_j_arg_int(r, c, 0, 0, &width));
    if (width < 0) width = 0;
    size_t sign = s->n && (*s->p == '-' || *s->p == '+');
    FX_TRY(fxi_jout_part(r, &o, s, 0, sign));
    FX_TRY(pad(r, &o, width - (int64_t)fxi_j_n_char(s), &zero));
    FX_TRY(fxi_jout_part(r, &o, s, sign, s->n - sign));
    return fxi_jout_done(r, &o, out);
}

// ---- characters ---------------------------------------------------------------------------------

// upper, lower, capitalize: what the filter of the name does.
METHOD(str_as_filter)
{
    const fxi_jroutine *row = fxi_j_find_filter(c->row->name, strlen(c->row->name));
    return fxi_jroutine_call(r, row, c->self, &(fxi_jargs){0}, out);
}

// title, swapcase (row->how: 's'). A word is a run of characters that have case.
METHOD(str_recase)
{
    const fxi_jstr *s = c->self.s;
    fxi_jout o = {0};
    size_t n;
    bool inside = false;
    for (size_t at = 0; at < s->n; at += n) {
        uint32_t ch = fxi_j_char(s, at, &n);
        bool upper = fxi_j_is_upper(ch), lower = fxi_j_is_lower(ch);
        char how = c->row->how == 's' ? (upper ? 'l' : 'u') : inside ? 'l' : 't';
        if (!upper && !lower && !fxi_j_is_title(ch))
            FX_TRY(fxi_jout_part(r, &o, s, at, n));
        else
            FX_TRY(fxi_jout_cased(r, &o, ch, how, fxi_j_own(s, at, n)));
        inside = upper || lower || fxi_j_is_title(ch);
    }
    return fxi_jout_done(r, &o, out);
}

static bool is_alnum(uint32_t c)
{
    return fxi_j_is_alpha(c) || fxi_j_is_digit(c);
}

// isalpha, isdigit, ..: there are characters, and all are of the kind row->how.
METHOD(str_all)
{
    static bool (*const kinds[])(uint32_t) = {fxi_j_is_alpha, fxi_j_is_digit, is_alnum,
                                              fxi_j_is_space};
    const fxi_jstr *s = c->self.s;
    bool all = s->n > 0;
    size_t n;
    FX_TRY(fxi_j_work_chars(r, 4 * s->n, 0));
    for (size_t at = 0; all && at < s->n; at += n) all = kinds[c->row->how](fxi_j_char(s, at, &n));
    *out = fxi_j_bool(all);
    return FX_OK;
}

// islower, isupper
METHOD(str_case_test)
{
    const char *name = c->row->name + 2;
    return fxi_jroutine_call(r, fxi_j_find_test(name, strlen(name)), c->self, &(fxi_jargs){0}, out);
}

// ---- the table ----------------------------------------------------------------------------------

#define POSITIONS .n_must = 1, .param = {"-", "-", "-"}
#define ONE       .n_must = 1, .param = {"-"}

const fxi_jroutine fxi_j_str_methods[] = {
    {.name = "capitalize", .run = str_as_filter},
    {.name = "center", .run = str_pad, .n_must = 1, .param = {"-", "-"}, .how = LEFT | RIGHT},
    {.name = "count", .run = str_count, POSITIONS},
    {.name = "endswith", .run = str_begins, POSITIONS, .how = 1},
    {.name = "find", .run = str_find, POSITIONS},
    {.name = "format", .run = fxi_j_str_format, .param = {"*"}},
    {.name = "index", .run = str_find, POSITIONS, .how = MUST_FIND},
    {.name = "isalnum", .run = str_all, .how = 2},
    {.name = "isalpha", .run = str_all, .how = 0},
    {.name = "isdigit", .run = str_all, .how = 1},
    {.name = "islower", .run = str_case_test},
    {.name = "isnumeric", .run = str_all, .how = 1},
    {.name = "isspace", .run = str_all, .how = 3},
    {.name = "isupper", .run = str_case_test},
    {.name = "join", .run = str_join, ONE},
    {.name = "ljust", .run = str_pad, .n_must = 1, .param = {"-", "-"}, .how = RIGHT},
    {.name = "lower", .run = str_as_filter},
    {.name = "lstrip", .run = str_strip, .param = {"-"}, .how = LEFT},
    {.name = "partition", .run = str_partition, ONE},
    {.name = "removeprefix", .run = str_remove, ONE},
    {.name = "removesuffix", .run = str_remove, ONE, .how = 1},
    {.name = "replace", .run = str_replace, .n_must = 2, .param = {"-", "-", "-"}},
    {.name = "rfind", .run = str_find, POSITIONS, .how = FROM_RIGHT},
    {.name = "rindex", .run = str_find, POSITIONS, .how = FROM_RIGHT | MUST_FIND},
    {.name = "rjust", .run = str_pad, .n_must = 1, .param = {"-", "-"}, .how = LEFT},
    {.name = "rpartition", .run = str_partition, ONE, .how = 1},
    {.name = "rsplit", .run = str_split, .param = {"sep", "maxsplit"}, .how = 1},
    {.name = "rstrip", .run = str_strip, .param = {"-"}, .how = RIGHT},
    {.name = "split", .run = str_split, .param = {"sep", "maxsplit"}},
    {.name = "splitlines", .run = str_splitlines, .param = {"keepends"}},
    {.name = "startswith", .run = str_begins, POSITIONS},
    {.name = "strip", .run = str_strip, .param = {"-"}, .how = LEFT | RIGHT},
    {.name = "swapcase", .run = str_recase, .how = 's'},
    {.name = "title", .run = str_recase, .how = 't'},
    {.name = "upper", .run = str_as_filter},
    {.name = "zfill", .run = str_zfill, ONE},
    {.name = NULL},
};
