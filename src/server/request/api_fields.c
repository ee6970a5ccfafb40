// api_fields.c - runs the table of fields over a body: types, bounds, words, setters.
#include "server/request/api_fields.h"

#include <stdio.h>
#include <string.h>

#include "base/text/utf8.h" // defines: fxi_utf8_count

static const struct type_name {
    unsigned bit;
    const char *text;
} type_names[] = {
    {FXI_T_BOOL, "true or false"}, {FXI_T_INT, "an integer"}, {FXI_T_NUM, "a number"},
    {FXI_T_STR, "a string"},       {FXI_T_ARR, "an array"},   {FXI_T_OBJ, "an object"},
};

static unsigned types_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_TRUE:
    case JSON_FALSE: return FXI_T_BOOL;
    case JSON_INTEGER: return FXI_T_INT | FXI_T_NUM;
    case JSON_REAL: return FXI_T_NUM | (fxi_json_is_whole(v) ? FXI_T_INT : 0);
    case JSON_STRING: return FXI_T_STR;
    case JSON_ARRAY: return FXI_T_ARR;
    case JSON_OBJECT: return FXI_T_OBJ;
    case JSON_NULL: break;
    }
    return 0;
}

static bool check_type(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    if (types_of(v) & f->types) return true;
    char want[96] = "";
    for (size_t i = 0; i < sizeof type_names / sizeof type_names[0]; i++) {
        if (!(f->types & type_names[i].bit)) continue;
        size_t n = strlen(want);
        snprintf(want + n, sizeof want - n, "%s%s", n ? " or " : "", type_names[i].text);
    }
    return fxi_bad_type(p, f->name, want);
}

// The quantity that the bounds of a field limit.
typedef struct amount {
    double x;
    const char *verb, *unit; // "must VERB at least 1UNIT"
} amount;

static amount amount_of(const json_t *v)
{
    if (json_is_string(v))
        return (amount){(double)fxi_utf8_count(json_string_value(v), json_string_length(v)), "have",
                        " characters"};
    if (json_is_array(v)) return (amount){(double)json_array_size(v), "have", " members"};
    return (amount){json_number_value(v), "be", ""};
}

// Integers are compared as such: as a double, one beyond a large bound may equal it.
static bool is_too_much(const fxi_field *f, const json_t *v, double x)
{
    return json_is_integer(v) && f->hi < 0x1p63 ? json_integer_value(v) > (int64_t)f->hi
                                                : x > f->hi;
}

static bool check_bounds(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    if (f->lo == f->hi) return true;
    amount a = amount_of(v);
    bool above = f->types & FXI_T_ABOVE;
    if ((above ? a.x > f->lo : a.x >= f->lo) && !is_too_much(f, v, a.x)) return true;
    const char *least = above ? "greater than" : "at least";
    if (f->hi >= FXI_NO_MAX)
        return fxi_bad_value(p, f->name, "'%s' must %s %s %g%s", f->name, a.verb, least, f->lo,
                             a.unit);
    return fxi_bad_value(p, f->name, "'%s' must %s %s %g and at most %.10g%s", f->name, a.verb,
                         least, f->lo, f->hi, a.unit);
}

static bool check_words(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    char word[40];
    const char *text = json_string_value(v);
    if (!f->words || !text) return true;
    snprintf(word, sizeof word, " %.36s ", text);
    if (!strchr(text, ' ') && strstr(f->words, word)) return true;
    return fxi_bad_value(p, f->name, "'%s' must be one of:%.*s", f->name, (int)strlen(f->words) - 1,
                         f->words);
}

static bool run_rows(fxi_parse *p, const fxi_field *row, size_t n_row, const json_t *from)
{
    for (const fxi_field *f = row; f < row + n_row; f++) {
        if (!(f->apis & 1u << p->par->api)) continue;
        const json_t *v = json_object_get(from, f->name);
        if (!v || json_is_null(v)) {
            if (!(f->types & FXI_T_REQUIRED)) continue;
            return fxi_http_fail(p->err, 400, "missing_required_parameter", f->name,
                                 "'%s' is required", f->name);
        }
        if (!check_type(p, f, v) || !check_bounds(p, f, v) || !check_words(p, f, v) ||
            !f->set(p, f, v))
            return false;
    }
    return true;
}

// ---- fields that nobody knows -----------------------------------------------------------------

static bool is_field(fxi_api api, const char *name)
{
    size_t n;
    const fxi_field *rows = fxi_field_rows(&n);
    for (size_t i = 0; i < n; i++)
        if (rows[i].apis & 1u << api && !strcmp(rows[i].name, name)) return true;
    return false;
}

// Names go to the log: what is no plain word, and so perhaps a text, does not.
static bool is_loggable_name(const char *s)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    const size_t n = strlen(s);
    return n > 0 && n <= 40 && strspn(s, plain) == n;
}

// As many names as there is room for: there are few fields, so few members are looked at.
static void note_ignored(fxi_params *par)
{
    const char *name;
    json_t *v;
    size_t n = 0;
    json_object_foreach(par->root, name, v)
    {
        if (is_field(par->api, name)) continue;
        const char *text = is_loggable_name(name) ? name : "?";
        if (n + strlen(text) + 2 > sizeof par->ignored) return;
        n +=
            (size_t)snprintf(par->ignored + n, sizeof par->ignored - n, "%s%s", n ? "," : "", text);
    }
}

bool fxi_fields_read(fxi_parse *p)
{
    size_t n;
    const fxi_field *rows = fxi_field_rows(&n);
    note_ignored(p->par);
    if (!run_rows(p, rows, n, p->par->root)) return false;
    rows = fxi_stream_field_rows(&n);
    return run_rows(p, rows, n, p->par->stream_options);
}
