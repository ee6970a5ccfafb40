// stops.h - the stop strings of a request, found while a text grows: a byte costs the same however
// long they are (Knuth, Morris and Pratt 1977).
#ifndef FXI_ENGINE_STOPS_H
#define FXI_ENGINE_STOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fxi_stop {
    const char *text; // the request's
    size_t n_bytes;   // > 0
    uint32_t *border; // [n_bytes + 1]: of the first k bytes of text, how many at their end equal as
                      // many at their start; less than k
} fxi_stop;

typedef struct fxi_stops { // all zero: none; constant once made
    fxi_stop *stop;
    size_t n;
} fxi_stops;

// text[n] are not empty, of less than 2 GiB each, and must outlive *out. False: no memory; free
// *out in either case.
bool fxi_stops_make(fxi_stops *out, const char *const *text, size_t n);
void fxi_stops_free(fxi_stops *s);

// Goes over the bytes that follow a text whose last *matched bytes begin the stop string, no fewer
// could, and brings *matched forward. True: the stop string ends behind the first *end of them.
bool fxi_stop_find(const fxi_stop *s, uint32_t *matched, const char *bytes, size_t n, size_t *end);

#endif
