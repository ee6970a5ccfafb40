// hidden_device.c - see hidden_device.h.
#include "unit/model/hidden_device.h"

#include "unit/cmocka_all.h"

#include <string.h>
#include <sys/mman.h>

#define MAP_BYTES ((size_t)1 << 28)

static hidden_device *hidden_of(const fxi_device *d)
{
    return (hidden_device *)d;
}

static fxi_device *under_of(const fxi_device *d)
{
    return hidden_of(d)->under;
}

// ---- entering and leaving ----------------------------------------------------------------------

static void set_access(const hidden_device *h, int prot)
{
    if (h->map) assert_int_equal(mprotect(h->map, MAP_BYTES, prot), 0);
}

static fx_status enter_call(const fxi_device *d, const char *what, fx_error *err)
{
    hidden_device *h = hidden_of(d);
    h->n_call++;
    if (h->fail_at && (h->n_call == h->fail_at || (h->fails_for_good && h->n_call > h->fail_at))) {
        if (h->n_call == h->fail_at) h->failed_in = what;
        return fxi_fail(err, FX_EINTERNAL, "hidden:0: %s failed", h->failed_in);
    }
    set_access(h, PROT_READ | PROT_WRITE);
    return FX_OK;
}

static fx_status leave_call(const fxi_device *d, fx_status st)
{
    set_access(hidden_of(d), PROT_NONE);
    return st;
}

// ---- memory ------------------------------------------------------------------------------------

static void close_hidden(fxi_device *d)
{
    hidden_device *h = hidden_of(d);
    h->under->ops->close(h->under);
    if (h->map) assert_int_equal(munmap(h->map, MAP_BYTES), 0);
}

static void hidden_memory(fxi_device *d, fxi_device_memory *out)
{
    under_of(d)->ops->memory(under_of(d), out);
}

static fx_status hidden_open_vmm(fxi_device *d, struct vt_vmm **out, fx_error *err)
{
    return under_of(d)->ops->open_vmm(under_of(d), out, err);
}

static fx_status hidden_take_host(fxi_device *d, size_t size_bytes, void **out, fx_error *err)
{
    return under_of(d)->ops->take_host(under_of(d), size_bytes, out, err);
}

static bool hidden_is_lost(const fxi_device *d)
{
    const hidden_device *h = hidden_of(d);
    return h->fails_for_good && h->fail_at && h->n_call >= h->fail_at;
}

static void *take_hidden(hidden_device *h, size_t size_bytes)
{
    char *at = h->map + h->used_bytes;
    h->used_bytes += (size_bytes + 63) / 64 * 64;
    assert_true(h->used_bytes <= MAP_BYTES);
    return at;
}

static fx_status hidden_take(fxi_device *d, size_t size_bytes, uint64_t more_bytes, void **out,
                             fx_error *err)
{
    (void)more_bytes;
    FX_TRY(enter_call(d, "take", err));
    *out = take_hidden(hidden_of(d), size_bytes);
    return leave_call(d, FX_OK);
}

static fx_status hidden_take_linear(fxi_device *d, fxi_linear *w, int n, uint64_t more_bytes,
                                    fx_error *err)
{
    (void)more_bytes;
    FX_TRY(enter_call(d, "take_linear", err));
    for (int i = 0; i < n; i++) w[i].data = take_hidden(hidden_of(d), fxi_linear_bytes(&w[i]));
    return leave_call(d, FX_OK);
}

static fx_status hidden_view_rows(fxi_device *d, const fxi_linear *w, int row0, int n_row,
                                  fxi_linear *out, fx_error *err)
{
    return under_of(d)->ops->view_rows(under_of(d), w, row0, n_row, out, err);
}

// ---- steps -------------------------------------------------------------------------------------

// The batch with the true addresses of its caches.
static const fxi_batch *shift_batch(hidden_device *h, const fxi_batch *b)
{
    h->batch = *b;
    h->batch.seq = h->seq;
    assert_true(b->n_seq <= HIDDEN_MAX_SEQ);
    for (int i = 0; i < b->n_seq; i++) {
        h->seq[i] = b->seq[i];
        for (int g = 0; g < FXI_KV_MAX_GROUP; g++) {
            fxi_kv_view *v = &h->seq[i].views.group[g];
            v->base = (char *)((uintptr_t)v->base - h->shift);
        }
    }
    return &h->batch;
}

static fx_status hidden_begin(fxi_device *d, const fxi_batch *batch, float *logits, fx_error *err)
{
    FX_TRY(enter_call(d, "begin", err));
    const fxi_batch *b = shift_batch(hidden_of(d), batch);
    return leave_call(d, under_of(d)->ops->begin(under_of(d), b, logits, err));
}

// A step that is handed on: its name, its parameters, and those but for the device.
#define HIDDEN_STEP(name, parameters, ...)                                      \
    static fx_status hidden_##name parameters                                   \
    {                                                                           \
        FX_TRY(enter_call(d, #name, err));                                      \
        return leave_call(d, under_of(d)->ops->name(under_of(d), __VA_ARGS__)); \
    }

HIDDEN_STEP(upload, (fxi_device * d, void *dst, const void *src, size_t size_bytes, fx_error *err),
            dst, src, size_bytes, err)
HIDDEN_STEP(put_linear,
            (fxi_device * d, const fxi_linear *w, int row0, int n_row, const void *rows,
             fx_error *err),
            w, row0, n_row, rows, err)
HIDDEN_STEP(prepare,
            (fxi_device * d, const fxi_transformer *plan, const fxi_pass_limits *most,
             fx_error *err),
            plan, most, err)
HIDDEN_STEP(embed, (fxi_device * d, const fxi_next_norm *next, fx_error *err), next, err)
HIDDEN_STEP(add_norm, (fxi_device * d, const fxi_branch_end *end, fx_error *err), end, err)
HIDDEN_STEP(linear,
            (fxi_device * d, fxi_operand a, const fxi_device_linear *job, int n_job, fx_error *err),
            a, job, n_job, err)
HIDDEN_STEP(rope_store, (fxi_device * d, const fxi_layer *l, fx_error *err), l, err)
HIDDEN_STEP(latent_store, (fxi_device * d, const fxi_layer *l, fx_error *err), l, err)
HIDDEN_STEP(keep_rows, (fxi_device * d, fx_error *err), err)
HIDDEN_STEP(attention, (fxi_device * d, const fxi_layer *l, fx_error *err), l, err)
HIDDEN_STEP(ffn, (fxi_device * d, const fxi_ffn *f, fx_error *err), f, err)
HIDDEN_STEP(experts, (fxi_device * d, const fxi_experts *x, fx_error *err), x, err)
HIDDEN_STEP(rows, (fxi_device * d, int n_row, fx_error *err), n_row, err)
HIDDEN_STEP(logits, (fxi_device * d, int n_row, fx_error *err), n_row, err)
HIDDEN_STEP(submit, (fxi_device * d, fx_error *err), err)
HIDDEN_STEP(wait, (fxi_device * d, fx_error *err), err)

static fx_status hidden_best(fxi_device *d, int n_row, fx_error *err)
{
    FX_TRY(enter_call(d, "best", err));
    hidden_of(d)->n_best++;
    return leave_call(d, under_of(d)->ops->best(under_of(d), n_row, err));
}

static const fxi_device_ops hidden_ops = {
    .close = close_hidden,
    .memory = hidden_memory,
    .open_vmm = hidden_open_vmm,
    .take_host = hidden_take_host,
    .is_lost = hidden_is_lost,
    .take = hidden_take,
    .upload = hidden_upload,
    .take_linear = hidden_take_linear,
    .put_linear = hidden_put_linear,
    .view_rows = hidden_view_rows,
    .prepare = hidden_prepare,
    .begin = hidden_begin,
    .embed = hidden_embed,
    .add_norm = hidden_add_norm,
    .linear = hidden_linear,
    .rope_store = hidden_rope_store,
    .latent_store = hidden_latent_store,
    .keep_rows = hidden_keep_rows,
    .attention = hidden_attention,
    .ffn = hidden_ffn,
    .experts = hidden_experts,
    .rows = hidden_rows,
    .logits = hidden_logits,
    .best = hidden_best,
    .submit = hidden_submit,
    .wait = hidden_wait,
};

// ---- opening -----------------------------------------------------------------------------------

void hidden_put_before(hidden_device *h, fxi_device *under)
{
    memset(h, 0, sizeof *h);
    h->dev = (fxi_device){.ops = &hidden_ops, .name = "hidden:0", .path = under->path};
    h->under = under;
}

void hidden_open(hidden_device *h, fxi_pool *pool)
{
    fxi_device *under;
    assert_int_equal(fxi_host_device_open(pool, NULL, &under, NULL), FX_OK);
    hidden_put_before(h, under);
    h->map = mmap(NULL, MAP_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(h->map != MAP_FAILED);
    h->shift = HIDDEN_SHIFT;
}

void hidden_fail_after(hidden_device *h, int n)
{
    h->n_call = 0;
    h->fail_at = n;
}
