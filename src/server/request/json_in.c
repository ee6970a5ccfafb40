// json_in.c - a client's text to JSON, within limits.
//
// A JSON tree takes up to a hundred times the bytes of its text, and parsing recurses. So a scan
// counts depth and values before anything is parsed, and the tree's memory is billed as it grows.
#include <math.h>

#include "base/text/json_shape.h"
#include "server/request/api_fields.h"

typedef struct tree_room {
    fxi_bill *bill;
    fxi_take taken; // the last answer
} tree_room;

static bool take_room(void *ud, size_t n_bytes)
{
    tree_room *r = ud;
    r->taken = fxi_bill_take(r->bill, FXI_BYTES_TREE, n_bytes);
    return r->taken == FXI_TAKE_OK;
}

static void give_room(void *ud, size_t n_bytes)
{
    tree_room *r = ud;
    fxi_bill_give(r->bill, FXI_BYTES_TREE, n_bytes);
}

static bool check_shape(const char *body, size_t n_bytes, fxi_http_error *err)
{
    const fxi_json_shape shape = fxi_json_measure(body, n_bytes);
    if (shape.max_depth <= FXI_JSON_MAX_DEPTH && shape.n_value <= FXI_JSON_MAX_VALUE) return true;
    return fxi_http_fail(err, 400, "invalid_json", NULL,
                         "the JSON body nests deeper than %d or has more than %d values",
                         FXI_JSON_MAX_DEPTH, FXI_JSON_MAX_VALUE);
}

static bool tell_failure(fxi_json_status st, const tree_room *r, const json_error_t *e,
                         fxi_http_error *err)
{
    if (st == FXI_JSON_NO_ROOM) return fxi_bytes_granted(err, r->taken);
    if (st == FXI_JSON_NO_MEMORY) return fxi_http_fail_memory(err);
    return fxi_http_fail(err, 400, "invalid_json", NULL,
                         "the body is not JSON: line %d, column %d: %.160s", e->line, e->column,
                         e->text);
}

bool fxi_json_body(fxi_json_doc *doc, fxi_bill *bill, const char *body, size_t n_bytes,
                   fxi_http_error *err)
{
    tree_room r = {.bill = bill};
    const fxi_json_room room = {take_room, give_room, &r};
    json_error_t e = {0};
    if (!check_shape(body, n_bytes, err)) return false;
    fxi_json_status st = fxi_json_doc_parse(doc, body, n_bytes, 0, bill ? &room : NULL, &e);
    if (st != FXI_JSON_OK) return tell_failure(st, &r, &e, err);
    if (json_is_object(doc->root)) return true;
    return fxi_http_fail(err, 400, "invalid_json", NULL, "the body must be a JSON object");
}

bool fxi_json_is_whole(const json_t *v)
{
    if (json_is_integer(v)) return true;
    double d = json_is_real(v) ? json_real_value(v) : 0.5;
    return d == floor(d) && fabs(d) <= 9007199254740992.0;
}
