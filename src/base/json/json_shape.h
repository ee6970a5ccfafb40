// json_shape.h - how large a JSON text's tree would be, known before it is parsed: a tree takes up
// to a hundred times the bytes of its text.
#ifndef FXI_BASE_JSON_SHAPE_H
#define FXI_BASE_JSON_SHAPE_H

#include <stddef.h>

typedef struct fxi_json_shape {
    size_t max_depth;
    size_t n_value; // nearly: commas and opening brackets
} fxi_json_shape;

enum { FXI_JSON_MAX_DEPTH = 32, FXI_JSON_MAX_VALUE = 400000 }; // of what a client sends

// Counts brackets and commas outside of strings. For text that is not JSON the counts mean nothing;
// the parser refuses it.
fxi_json_shape fxi_json_measure(const char *text, size_t n_bytes);

#endif
