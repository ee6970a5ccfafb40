// lease_span.c - the cache of one sequence and of its fork, as addresses for programs that are not
// ours: others_torch.py loads this library and hands them to PyTorch.
//
// Rows lie as libvtensor's default for the device has them: a GPU's planes share a span, token
// after token; the host's have a span each.
#include <stdlib.h>

#include <vtensor/vtensor.h>

typedef struct lease_span {
    vt_manager *manager;
    vt_seq *seq, *fork; // fork: NULL until span_fork
} lease_span;

#define SPAN_API __attribute__((visibility("default")))

SPAN_API lease_span *span_open(int device, unsigned n_plane, size_t row_bytes, unsigned max_tok);
SPAN_API int span_grow(lease_span *s, unsigned n_tok);
SPAN_API int span_fork(lease_span *s, unsigned n_tok);
SPAN_API void *span_plane(const lease_span *s, int of_fork, unsigned plane);
SPAN_API size_t span_stride(const lease_span *s);
SPAN_API int span_check(const lease_span *s);
SPAN_API void span_close(lease_span *s);

static vt_status open_manager(int device, vt_config *cfg, vt_manager **out)
{
    if (device >= 0) {
        const vt_vmm_cuda_config cuda = {.device = device};
        const vt_status st = vt_vmm_cuda_open(&cuda, &cfg->vmm, NULL);
        if (st != VT_OK) return st;
        cfg->layout = VT_LAYOUT_PACKED;
    }
    const vt_status st = vt_manager_create(cfg, out);
    if (st != VT_OK && cfg->vmm) cfg->vmm->ops->close(cfg->vmm);
    return st;
}

// device: an ordinal, whose context is the current one; below 0: the host. NULL: it cannot be done.
lease_span *span_open(int device, unsigned n_plane, size_t row_bytes, unsigned max_tok)
{
    lease_span *s = calloc(1, sizeof *s);
    vt_config cfg = vt_config_default();
    cfg.n_plane = n_plane;
    cfg.row_bytes = row_bytes;
    cfg.max_tok = max_tok;
    cfg.max_seq = 2;
    cfg.budget_bytes = (uint64_t)4 << 30;
    if (s && open_manager(device, &cfg, &s->manager) == VT_OK &&
        vt_seq_create(s->manager, max_tok, &s->seq) == VT_OK)
        return s;
    if (s) span_close(s);
    return NULL;
}

int span_grow(lease_span *s, unsigned n_tok)
{
    return vt_seq_extend(s->seq, n_tok);
}

// The first n_tok rows again, by mapping the same memory twice.
int span_fork(lease_span *s, unsigned n_tok)
{
    return vt_seq_fork(s->seq, n_tok, &s->fork);
}

void *span_plane(const lease_span *s, int of_fork, unsigned plane)
{
    return vt_seq_plane(of_fork ? s->fork : s->seq, plane);
}

size_t span_stride(const lease_span *s)
{
    return vt_seq_stride(s->seq);
}

int span_check(const lease_span *s)
{
    return vt_check(s->manager, NULL);
}

void span_close(lease_span *s)
{
    if (s->fork) vt_seq_release(s->fork);
    if (s->seq) vt_seq_release(s->seq);
    if (s->manager) vt_manager_destroy(s->manager);
    free(s);
}
