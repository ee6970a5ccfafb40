// ep_cache.c - for operators: figures, the KV cache and its budget, the flight recorder.
#include <inttypes.h>

#include "server/endpoint/endpoint.h"
#include "server/trace/chrome_trace.h"

// All figures, as one flat object with the names of FX_STATS.
bool fxi_endpoint_stats(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fx_stats st;
    fx_engine_stats(c->eng, &st);
    const size_t at = out->n;
    bool ok = fxi_buf_str(out, "{");
#define ADD_STAT(name, help) \
    ok = ok && fxi_buf_fmt(out, "%s\"" #name "\":%" PRIu64, out->n > at + 1 ? "," : "", st.name);
    FX_STATS(ADD_STAT)
#undef ADD_STAT
    return fxi_endpoint_end(ok && fxi_buf_str(out, "}"), err);
}

bool fxi_endpoint_cache(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fx_stats st;
    fx_engine_stats(c->eng, &st);
    const size_t tok_bytes = fx_engine_info(c->eng)->kv_bytes_per_tok;
    bool ok = fxi_buf_fmt(
        out,
        "{\"kv_memory_bytes\":%" PRIu64 ",\"mapped_bytes\":%" PRIu64 ",\"cached_bytes\":%" PRIu64
        ",\"live_bytes\":%" PRIu64 ",\"swapped_bytes\":%" PRIu64 ",\"bytes_per_token\":%zu"
        ",\"prompt_tokens\":%" PRIu64 ",\"cached_tokens\":%" PRIu64 "}",
        st.kv_budget_bytes, st.kv_mapped_bytes, st.kv_cached_bytes, st.kv_live_bytes,
        st.kv_swapped_bytes, tok_bytes, st.n_prompt_tok + st.n_cached_tok, st.n_cached_tok);
    return fxi_endpoint_end(ok, err);
}

bool fxi_endpoint_cache_clear(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fx_clear_cache(c->eng);
    return fxi_endpoint_end(fxi_buf_str(out, "{\"status\":\"ok\"}"), err);
}

bool fxi_endpoint_trace(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    return fxi_endpoint_end(fxi_chrome_trace_of(out, c->eng), err);
}

bool fxi_endpoint_budget(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fx_stats st;
    fx_engine_stats(c->eng, &st);
    return fxi_endpoint_end(
        fxi_buf_fmt(out, "{\"kv_memory_bytes\":%" PRIu64 "}", st.kv_budget_bytes), err);
}

bool fxi_endpoint_set_budget(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    fxi_params par;
    fx_error e;
    if (!fxi_params_parse(&par, FXI_API_BUDGET, c->body, c->n_body, c->lim, err)) return false;
    const uint64_t n_bytes = (uint64_t)par.kv_memory_bytes;
    fxi_params_free(&par);
    if (fx_set_kv_memory(c->eng, n_bytes, &e) != FX_OK)
        return fxi_http_fail_fx(err, &e, "kv_memory_bytes");
    return fxi_endpoint_end(fxi_buf_fmt(out, "{\"kv_memory_bytes\":%" PRIu64 "}", n_bytes), err);
}
