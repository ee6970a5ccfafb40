// json_in.c - a client's text to JSON, within limits.
//
// A JSON tree takes up to a hundred times the bytes of its text, and parsing recurses. So a scan
// counts depth and values before anything is parsed.
#include <math.h>

#include "base/text/json_shape.h"
#include "server/request/api_fields.h"

json_t *fxi_json_body(const char *body, size_t n_bytes, fxi_http_error *err)
{
    const fxi_json_shape shape = fxi_json_measure(body, n_bytes);
    if (shape.max_depth > FXI_JSON_MAX_DEPTH || shape.n_value > FXI_JSON_MAX_VALUE) {
        fxi_http_fail(err, 400, "invalid_json", NULL,
                      "the JSON body nests deeper than %d or has more than %d values",
                      FXI_JSON_MAX_DEPTH, FXI_JSON_MAX_VALUE);
        return NULL;
    }
    json_error_t je = {0};
    json_t *root = json_loadb(n_bytes ? body : "", n_bytes, 0, &je);
    if (!root) {
        fxi_http_fail(err, 400, "invalid_json", NULL,
                      "the body is not JSON: line %d, column %d: %.160s", je.line, je.column,
                      je.text);
    } else if (!json_is_object(root)) {
        fxi_http_fail(err, 400, "invalid_json", NULL, "the body must be a JSON object");
        json_decref(root);
        root = NULL;
    }
    return root;
}

bool fxi_json_is_whole(const json_t *v)
{
    if (json_is_integer(v)) return true;
    double d = json_is_real(v) ? json_real_value(v) : 0.5;
    return d == floor(d) && fabs(d) <= 9007199254740992.0;
}
