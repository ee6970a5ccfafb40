// fuzz_trace.c - traces: any bytes give rows within their bounds, or a one-line error.
#include "fuzz.h"

#include <string.h>

#include "lab/trace.h"

FUZZ_TARGET(fuzz_trace);

int fuzz_trace_run(const uint8_t *data, size_t n_bytes)
{
    fxi_trace t;
    fx_error err = {.text = ""};
    fx_status st = fxi_trace_read((const char *)data, n_bytes, "fuzz", &t, &err);
    FUZZ_CHECK((st == FX_OK) == (err.text[0] == 0));
    FUZZ_CHECK(!strchr(err.text, '\n'));
    for (size_t i = 0; st == FX_OK && i < t.n_row; i++) {
        const fxi_trace_row *r = &t.row[i];
        FUZZ_CHECK(r->n_prompt >= 1 && r->n_prompt <= FXI_TRACE_MAX_TOK);
        FUZZ_CHECK(r->n_output >= 0 && r->n_output <= FXI_TRACE_MAX_TOK);
        FUZZ_CHECK(r->hash + r->n_hash <= t.n_hash);
        FUZZ_CHECK(i == 0 || r->arrival_ms >= t.row[i - 1].arrival_ms);
    }
    fxi_trace_free(&t);
    return 0;
}

FUZZ_SEEDS(fuzz_trace, "prompt_tokens,output_tokens\n10,4\n20,0\n",
           "arrival_ms,prompt_tokens,output_tokens,hash_ids\n5.5,1024,1,7 8\n0,513,1,\"7 9\"\n",
           "{\"timestamp\": 3, \"input_length\": 600, \"output_length\": 2, \"hash_ids\": [1, 2]}\n"
           "{\"timestamp\": 4, \"input_length\": 1, \"output_length\": 2}\n")
