// json_in.c - text from a client to JSON.
//
// A JSON tree takes up to a hundred times the bytes of its text, and parsing recurses. So a scan
// counts depth and values before anything is parsed.
#include <string.h>

#include "server/request/api_fields.h"

#define MAX_DEPTH 32
#define MAX_VALUE 400000

typedef struct json_size {
    size_t depth, max_depth, n_value;
} json_size;

// Counts brackets and commas outside strings. Text that is not JSON gets some count, and the parser
// refuses it.
static json_size measure_json(const char *s, size_t n)
{
    json_size m = {0};
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (quoted) {
            if (s[i] == '\\')
                i++;
            else if (s[i] == '"')
                quoted = false;
            continue;
        }
        if (s[i] == '"') quoted = true;
        if (s[i] == ',') m.n_value++;
        if (s[i] == '[' || s[i] == '{') m.n_value++, m.depth++;
        if ((s[i] == ']' || s[i] == '}') && m.depth) m.depth--;
        if (m.depth > m.max_depth) m.max_depth = m.depth;
    }
    return m;
}

bool fxi_json_fits(fxi_parse *p, const char *s, size_t n)
{
    json_size m = measure_json(s, n);
    p->par->n_value += m.n_value + 1;
    return m.max_depth <= MAX_DEPTH && p->par->n_value <= MAX_VALUE;
}

json_t *fxi_json_body(const char *body, size_t n_bytes, fxi_http_error *err)
{
    json_size m = measure_json(body, n_bytes);
    if (m.max_depth > MAX_DEPTH || m.n_value > MAX_VALUE) {
        fxi_http_fail(err, 400, "invalid_json", NULL,
                      "the JSON body nests deeper than %d or has more than %d values", MAX_DEPTH,
                      MAX_VALUE);
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
