// fuzz_imatrix.c - any bytes as an importance matrix, in both forms: what opens has values that are
// finite and not negative.
#include <math.h>
#include <string.h>

#include "format/quantize.h"
#include "fuzz.h"
#include "unit/format/gguf_bytes.h"

FUZZ_TARGET(fuzz_imatrix);

int fuzz_imatrix_run(const uint8_t *data, size_t n_bytes)
{
    fxi_imatrix *m;
    fx_error err = {0};
    size_t n_slice;
    if (fxi_imatrix_parse(data, n_bytes, "fuzz", &m, &err) != FX_OK) {
        FUZZ_CHECK(err.status == FX_EFORMAT && !strncmp(err.text, "fuzz: ", 6));
        for (const char *c = err.text; *c; c++) FUZZ_CHECK(*c >= 0x20 && *c < 0x7F);
        return 0;
    }
    FUZZ_CHECK(fxi_imatrix_n_entry(m) > 0);
    const float *v = fxi_imatrix_find(m, fxi_str_of("t"), 2, &n_slice);
    for (size_t i = 0; v && i < 2 * n_slice; i++) FUZZ_CHECK(v[i] >= 0 && isfinite(v[i]));
    fxi_imatrix_free(m);
    return 0;
}

static bool put_older(fxi_buf *out)
{
    const int32_t head[] = {1, 1}, values[] = {3, 2};
    const float v[] = {1.5f, 6};
    return fxi_buf_add(out, head, sizeof head) && fxi_buf_add(out, "t", 1) &&
           fxi_buf_add(out, values, sizeof values) && fxi_buf_add(out, v, sizeof v);
}

static bool put_newer(fxi_buf *out)
{
    const uint64_t sums[2] = {2, 2}, counts[1] = {2};
    put_header(out, 3, 2, 0);
    put_tensor(out, "t.in_sum2", 2, sums, FXI_F32, 0);
    put_tensor(out, "t.counts", 1, counts, FXI_F32, 32);
    pad_to(out, 32);
    const float v[10] = {1, 2, 3, 4, 0, 0, 0, 0, 2, 1};
    return fxi_buf_add(out, v, sizeof v);
}

bool fuzz_imatrix_seed(unsigned i, fxi_buf *out)
{
    return i == 0 ? put_older(out) : i == 1 ? put_newer(out) : false;
}
