// json_shape.c - one pass over a JSON text, without a stack.
#include "base/text/json_shape.h"

#include <stdbool.h>

fxi_json_shape fxi_json_measure(const char *text, size_t n_bytes)
{
    fxi_json_shape shape = {0};
    size_t depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < n_bytes; i++) {
        const char c = text[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
            continue;
        }
        if (c == '"') quoted = true;
        if (c == ',') shape.n_value++;
        if (c == '[' || c == '{') shape.n_value++, depth++;
        if ((c == ']' || c == '}') && depth) depth--;
        if (depth > shape.max_depth) shape.max_depth = depth;
    }
    return shape;
}
