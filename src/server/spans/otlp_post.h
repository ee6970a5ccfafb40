// otlp_post.h - one batch of spans to a collector: one POST on a connection of its own.
#ifndef FXI_SERVER_OTLP_POST_H
#define FXI_SERVER_OTLP_POST_H

#include <stdint.h>

#include "base/net/dial.h"
#include "base/text/buf.h"

typedef enum fxi_post_outcome {
    FXI_POST_TAKEN,   // 2xx; n_rejected of the spans were not taken all the same
    FXI_POST_REFUSED, // an answer that will stay the same
    FXI_POST_LATER,   // 429, 502, 503, 504, or no answer: it may be tried again
} fxi_post_outcome;

typedef struct fxi_post_result {
    fxi_post_outcome outcome;
    int retry_after_s;   // with LATER: what the collector asks for; 0: nothing
    uint64_t n_rejected; // with TAKEN
    char why[256];       // one line, where something was not taken
} fxi_post_result;

// trust: for https. headers: more of them, a list of otel_pairs.h; NULL: none.
fxi_post_result fxi_otlp_post(const fxi_url *url, const fxi_trust *trust, const char *headers,
                              const fxi_buf *body, const fxi_patience *wait);

#endif
