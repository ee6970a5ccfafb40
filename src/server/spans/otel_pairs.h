// otel_pairs.h - lists as OpenTelemetry's variables have them: "key=value,key2=value%202", with
// bytes as %XX where a text has what a list cannot (W3C's "Baggage").
#ifndef FXI_SERVER_OTEL_PAIRS_H
#define FXI_SERVER_OTEL_PAIRS_H

#include <stdbool.h>

typedef struct fxi_otel_pair {
    char key[128], value[512];
} fxi_otel_pair;

// Takes the next pair off *list. What is no pair, is too long, or decodes to a NUL is left out.
// False: nothing is left. NULL is an empty list.
bool fxi_otel_pair_next(const char **list, fxi_otel_pair *out);

// Whether it can be a header of a request: the name is a token of HTTP and none of those that frame
// the request, the value printable ASCII.
bool fxi_otel_pair_is_header(const fxi_otel_pair *p);

#endif
