// json_in.c - a client's text to JSON, within limits.
//
// A JSON tree takes up to a hundred times the bytes of its text, and parsing recurses. So a scan
// counts depth and values before anything is parsed, and the tree's memory is charged as it grows.
//
// A text for the model may have the character 0, which models write, too. Names and patterns may
// not: they are handled as C strings.
#include <math.h>
#include <string.h>

#include "base/json/json_shape.h"
#include "base/text/utf8.h"
#include "server/request/api_fields.h"

typedef struct tree_room {
    fxi_charge *charge;
    fxi_quota_result taken; // the last answer
} tree_room;

static bool take_room(void *ud, size_t n_bytes)
{
    tree_room *r = ud;
    r->taken = fxi_charge_reserve(r->charge, FXI_BYTES_TREE, n_bytes);
    return r->taken == FXI_QUOTA_OK;
}

static void give_room(void *ud, size_t n_bytes)
{
    tree_room *r = ud;
    fxi_charge_release(r->charge, FXI_BYTES_TREE, n_bytes);
}

// A text that is parsed: the body, or a field with JSON in it.
typedef struct body_source {
    const char *text;
    size_t n_bytes;
    const char *field; // NULL: the body
} body_source;

static bool check_shape(const body_source *s, fxi_http_error *err)
{
    const fxi_json_shape shape = fxi_json_measure(s->text, s->n_bytes);
    if (shape.max_depth <= FXI_JSON_MAX_DEPTH && shape.n_value <= FXI_JSON_MAX_VALUE) return true;
    return fxi_http_fail(err, 400, "invalid_json", s->field,
                         "the JSON %s nests deeper than %d or has more than %d values",
                         s->field ? "text" : "body", FXI_JSON_MAX_DEPTH, FXI_JSON_MAX_VALUE);
}

static bool tell_failure(const body_source *s, fxi_json_status st, const tree_room *r,
                         const json_error_t *e, fxi_http_error *err)
{
    if (st == FXI_JSON_NO_ROOM) return fxi_bytes_granted(err, r->taken);
    if (st == FXI_JSON_NO_MEMORY) return fxi_http_fail_memory(err);
    const bool too_large = json_error_code(e) == json_error_numeric_overflow;
    return fxi_http_fail(err, 400, "invalid_json", s->field, "the %s %s: line %d, column %d: %.*s",
                         s->field ? "text" : "body",
                         too_large ? "has a number beyond 64 bits" : "is not JSON", e->line,
                         e->column, FXI_UTF8_HEAD(e->text, 160));
}

static bool parse_source(fxi_json_doc *doc, fxi_charge *charge, const body_source *s, size_t flags,
                         fxi_http_error *err)
{
    tree_room r = {.charge = charge};
    const fxi_json_room room = {take_room, give_room, &r};
    json_error_t e = {0};
    if (!check_shape(s, err)) return false;
    const fxi_json_status st =
        fxi_json_doc_parse(doc, s->text, s->n_bytes, flags, charge ? &room : NULL, &e);
    return st == FXI_JSON_OK || tell_failure(s, st, &r, &e, err);
}

bool fxi_json_field(fxi_json_doc *doc, fxi_charge *charge, const char *field, const json_t *text,
                    fxi_http_error *err)
{
    const body_source s = {json_string_value(text), json_string_length(text), field};
    return parse_source(doc, charge, &s, JSON_DECODE_ANY, err);
}

// Whether a string that is, or lies in arrays in, the member of this name is for the model to read.
static bool is_for_model(const char *member)
{
    static const char *const texts[] = {"prompt", "content",      "text",  "input",
                                        "output", "instructions", "system"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!strcmp(member, texts[i])) return true;
    return false;
}

// The member of a string that has a NUL and may not; NULL: there is none.
static const char *find_bad_nul(json_t *v, const char *member)
{
    const char *key, *found = NULL;
    json_t *inner;
    if (json_is_string(v) && !is_for_model(member) &&
        memchr(json_string_value(v), 0, json_string_length(v)))
        return member;
    for (size_t i = 0; !found && i < json_array_size(v); i++)
        found = find_bad_nul(json_array_get(v, i), member);
    json_object_foreach(v, key, inner)
    {
        if (found) break;
        found = find_bad_nul(inner, key);
    }
    return found;
}

// Hardly any body has a NUL, and then this costs a search in its text.
static bool check_nul(json_t *root, const char *body, size_t n_bytes, fxi_http_error *err)
{
    static const char escape[] = "\\u0000";
    if (!n_bytes || !memmem(body, n_bytes, escape, sizeof escape - 1)) return true;
    const char *member = find_bad_nul(root, "");
    return !member ||
           fxi_http_fail(err, 400, "invalid_value", member,
                         "'%.*s' must not have the character U+0000", FXI_UTF8_HEAD(member, 40));
}

bool fxi_json_body(fxi_json_doc *doc, fxi_charge *charge, const char *body, size_t n_bytes,
                   fxi_http_error *err)
{
    const body_source s = {body, n_bytes, NULL};
    if (!parse_source(doc, charge, &s, JSON_ALLOW_NUL, err)) return false;
    if (json_is_object(doc->root)) return check_nul(doc->root, body, n_bytes, err);
    return fxi_http_fail(err, 400, "invalid_json", NULL, "the body must be a JSON object");
}

bool fxi_json_is_whole(const json_t *v)
{
    if (json_is_integer(v)) return true;
    double d = json_is_real(v) ? json_real_value(v) : 0.5;
    return d == floor(d) && fabs(d) <= 9007199254740992.0;
}
