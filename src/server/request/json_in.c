// json_in.c - a client's text to JSON, within limits.
//
// A tree takes several times the bytes of its text, so its memory is charged as it grows.
//
// A text for the model may have the character 0, which models write, too. Names and patterns may
// not: they are handled as C strings.
#include <math.h>
#include <string.h>

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

// field: NULL: the body.
static bool parse_text(fxi_json_doc *doc, fxi_charge *charge, fxi_str text, const char *field,
                       fxi_http_error *err)
{
    tree_room r = {.charge = charge};
    const fxi_json_room room = {take_room, give_room, &r};
    const fxi_json_rules rules = {.max_depth = FXI_JSON_MAX_DEPTH,
                                  .max_value = FXI_JSON_MAX_VALUE,
                                  .nul_texts = !field,
                                  .room = charge ? &room : NULL};
    fx_error e;
    const fx_status st = fxi_json_parse(doc, text, &rules, &e);
    if (st == FX_OK) return true;
    if (st == FX_ENOMEM)
        return r.taken == FXI_QUOTA_OK ? fxi_http_fail_memory(err)
                                       : fxi_bytes_granted(err, r.taken);
    return fxi_http_fail(err, 400, "invalid_json", field, "the %s %s%s", field ? "text" : "body",
                         st == FX_EFORMAT ? "is not JSON: " : "", e.text);
}

bool fxi_json_field(fxi_json_doc *doc, fxi_charge *charge, const char *field, const fxi_json *text,
                    fxi_http_error *err)
{
    return parse_text(doc, charge, fxi_json_string(text), field, err);
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
static const char *find_bad_nul(const fxi_json *v, const char *member)
{
    const char *found = NULL;
    const fxi_str s = fxi_json_string(v);
    if (s.n && !is_for_model(member) && memchr(s.p, 0, s.n)) return member;
    for (fxi_json_iter it = fxi_json_items(v); !found && fxi_json_next(&it);)
        found = find_bad_nul(it.value, it.key ? it.key : member);
    return found;
}

// Hardly any body has a NUL, and then this costs a search in its text.
static bool check_nul(const fxi_json *root, const char *body, size_t n_bytes, fxi_http_error *err)
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
    if (!parse_text(doc, charge, (fxi_str){body, n_bytes}, NULL, err)) return false;
    if (fxi_json_is_object(doc->root)) return check_nul(doc->root, body, n_bytes, err);
    return fxi_http_fail(err, 400, "invalid_json", NULL, "the body must be a JSON object");
}

bool fxi_json_is_whole(const fxi_json *v)
{
    if (fxi_json_is_int(v)) return true;
    double d = fxi_json_is_real(v) ? fxi_json_number(v) : 0.5;
    return d == floor(d) && fabs(d) <= 9007199254740992.0;
}
