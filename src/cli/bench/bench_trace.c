// bench_trace.c - what the engine did during the runs, as a file for a viewer of traces.
#include "cli/bench/bench.h"
#include "server/trace/chrome_trace.h"

#include <errno.h>
#include <string.h>

fx_status fxi_bench_open_trace(const char *path, FILE **out, fx_error *err)
{
    *out = path ? fopen(path, "w") : NULL;
    if (path && !*out) return fxi_fail(err, FX_EIO, "%s: %s", path, strerror(errno));
    return FX_OK;
}

fx_status fxi_bench_write_trace(const char *path, FILE *f, const fx_engine *eng, fx_error *err)
{
    fxi_buf b = {0};
    if (!f) return FX_OK;
    const bool made = !eng || fxi_chrome_trace_of(&b, eng);
    const bool wrote = b.n == 0 || fwrite(b.p, 1, b.n, f) == b.n;
    const bool closed = fclose(f) == 0;
    fxi_buf_free(&b);
    if (!made) return fxi_fail(err, FX_ENOMEM, "no memory for the trace");
    if (!wrote || !closed) return fxi_fail(err, FX_EIO, "%s: %s", path, strerror(errno));
    return FX_OK;
}
