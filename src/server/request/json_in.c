// json_in.c - a client's text to JSON, within limits.
//
// A tree takes several times the bytes of its text, so its memory is charged as it grows.
//
// A text for the model may have the character 0, which models write, too. Names and patterns may
// not: they are handled as C strings.
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

bool fxi_json_field(fxi_json_doc *doc, fxi_charge *charge, const char *field, fxi_str text,
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

// The member of a string that has a NUL and may not; NULL: there is none. Those may that are, or
// lie in arrays in, a member for the model to read.
static const char *find_bad_nul(const fxi_json *v, const char *member)
{
    static const char *const for_model[] = {"prompt",    "content",      "text",   "input",
                                            "output",    "instructions", "system", "query",
                                            "documents", "text_1",       "text_2"};
    const char *found = NULL;
    const fxi_str s = fxi_json_string(v);
    if (s.n && memchr(s.p, 0, s.n) &&
        !fxi_str_is_any(fxi_str_of(member), for_model, sizeof for_model / sizeof for_model[0]))
        return member;
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
    if (!fxi_json_field(doc, charge, NULL, (fxi_str){body, n_bytes}, err)) return false;
    if (fxi_json_is_object(doc->root)) return check_nul(doc->root, body, n_bytes, err);
    return fxi_http_fail(err, 400, "invalid_json", NULL, "the body must be a JSON object");
}
