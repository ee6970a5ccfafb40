// gpu_ranks.c - several GPUs that compute one model together (model/device.h, fxi_device_ranks).
//
// Each is a device of its own, with its context, streams, weights and operands; the decoder gives
// all of them the same steps. They meet in `sum`: NCCL's, in their compute streams. Its order of
// three addends or more depends on how many numbers there are, so on the batch; these
// are therefore gathered, and a kernel adds them, in the order of the ranks.
//
// A GPU that is lost never comes to a sum that the others wait for. So whoever waits looks at all
// of them, and what one has lost all have: their work together is given up.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/comm/comm.h"
#include "gpu/gpu_impl.h"

enum { NAME_BYTES = 128, WAIT_NS = 20000 }; // between two looks

typedef struct gpu_ranks {
    fxi_device device; // first: a fxi_device is cast to this
    fxi_device_ranks set;
    fxi_device *rank[FXI_MAX_RANK];
    fxi_comm comm;
    bool gathers; // sums are gathers, and additions of ours
    char name[NAME_BYTES], path[48];
} gpu_ranks;

static gpu_ranks *ranks_of(fxi_device *d)
{
    return (gpu_ranks *)d;
}

static fxi_gpu *ranked_gpu(const gpu_ranks *r, int k)
{
    return fxi_gpu_of(r->rank[k]);
}

bool fxi_gpu_is_list(const char *name)
{
    return strchr(name, ',') != NULL && fxi_gpu_is_name(name);
}

// ---- failures ----------------------------------------------------------------------------------

// A rank's reason is the reason of all: none of them is of use without the others.
static void lose_all(gpu_ranks *r, const fx_error *why)
{
    fxi_comm_abort(&r->comm);
    for (int k = 0; k < r->set.n; k++)
        if (ranked_gpu(r, k)->lost.status == FX_OK) ranked_gpu(r, k)->lost = *why;
}

static const fx_error *find_loss(const gpu_ranks *r)
{
    for (int k = 0; k < r->set.n; k++)
        if (ranked_gpu(r, k)->lost.status != FX_OK) return &ranked_gpu(r, k)->lost;
    return NULL;
}

static void give_up_pass(fxi_device *d)
{
    const fx_error *why = find_loss(ranks_of(d));
    if (!why) return;
    const fx_error copy = *why;
    lose_all(ranks_of(d), &copy);
}

static bool any_is_lost(const fxi_device *d)
{
    return find_loss((const gpu_ranks *)d) != NULL;
}

// ---- sums --------------------------------------------------------------------------------------

static fx_status sum_h(fxi_device *d, fx_error *err)
{
    gpu_ranks *r = ranks_of(d);
    const fxi_gpu *first = ranked_gpu(r, 0);
    const size_t n = (size_t)first->pass.n_row * (size_t)first->plan->model.shape.dim;
    float *h[FXI_MAX_RANK], *all[FXI_MAX_RANK];
    fx_error why;
    if (r->set.n == 1 || !n) return FX_OK;
    for (int k = 0; k < r->set.n; k++) {
        fxi_gpu *g = ranked_gpu(r, k);
        FX_TRY(fxi_gpu_failed(g, fxi_gpu_graph_cut(g, err), err));
        h[k] = g->s.h.x;
        all[k] = g->s.addends;
    }
    const fx_status st = r->gathers ? fxi_comm_gather(&r->comm, h, all, n, &why)
                                    : fxi_comm_sum(&r->comm, h, n, &why);
    if (st != FX_OK) {
        lose_all(r, &why);
        return fxi_fail(err, st, "%s", why.text);
    }
    for (int k = 0; k < r->set.n && r->gathers; k++) {
        fxi_gpu *g = ranked_gpu(r, k);
        const fxi_cuda_add_ranks_args args = {.from = g->s.addends,
                                              .n_rank = r->set.n,
                                              .count = {g->pass.n_row, NULL},
                                              .n = g->plan->model.shape.dim,
                                              .y = g->s.h.x};
        FX_TRY(fxi_gpu_launch(g, FXI_CUDA_ADD_RANKS, &args, err));
    }
    return FX_OK;
}

// ---- waiting -----------------------------------------------------------------------------------

// Until all are done, or one fails.
static fx_status await_all(gpu_ranks *r, fx_error *err)
{
    const struct timespec pause = {.tv_nsec = WAIT_NS};
    for (;;) {
        bool all_idle = true;
        for (int k = 0; k < r->set.n; k++) {
            fxi_gpu *g = ranked_gpu(r, k);
            bool is_idle = false;
            FX_TRY(fxi_cu_enter(&g->cu, err));
            const fx_status st =
                fxi_cu_leave(&g->cu, fxi_cu_is_idle(&g->cu, g->cu.compute, &is_idle, err));
            FX_TRY(fxi_gpu_failed(g, st, err));
            all_idle = all_idle && is_idle;
        }
        if (all_idle) return FX_OK;
        nanosleep(&pause, NULL);
    }
}

static fx_status wait_for_all(fxi_device *d, fx_error *err)
{
    gpu_ranks *r = ranks_of(d);
    fx_status st = r->set.n > 1 ? await_all(r, err) : FX_OK;
    for (int k = 0; k < r->set.n && st == FX_OK; k++) st = fxi_gpu_wait(r->rank[k], err);
    if (st != FX_OK) give_up_pass(d);
    return st;
}

// ---- the table ---------------------------------------------------------------------------------

// Where one is lost the others may wait in a sum for ever, and so would whoever ends them in order.
static void close_gpus(fxi_device *d)
{
    gpu_ranks *r = ranks_of(d);
    if (r->set.n > 1 && await_all(r, NULL) != FX_OK) fxi_comm_abort(&r->comm);
    fxi_comm_close(&r->comm);
    for (int k = 0; k < r->set.n; k++) r->rank[k]->ops->close(r->rank[k]);
    free(r);
}

// The parts of a cache are equal, so the poorest device says how much there is.
static void least_memory(fxi_device *d, fxi_device_memory *out)
{
    const gpu_ranks *r = ranks_of(d);
    const uint64_t n = (uint64_t)r->set.n;
    *out = (fxi_device_memory){.free_bytes = UINT64_MAX, .total_bytes = UINT64_MAX};
    for (int k = 0; k < r->set.n; k++) {
        fxi_device_memory m;
        r->rank[k]->ops->memory(r->rank[k], &m);
        if (n * m.free_bytes < out->free_bytes) out->free_bytes = n * m.free_bytes;
        if (n * m.total_bytes < out->total_bytes) out->total_bytes = n * m.total_bytes;
    }
}

static fx_status take_of_first(fxi_device *d, size_t size_bytes, void **out, fx_error *err)
{
    return fxi_gpu_take_host(ranks_of(d)->rank[0], size_bytes, out, err);
}

static const fxi_device_ops ranks_ops = {
    .close = close_gpus,
    .memory = least_memory,
    .take_host = take_of_first,
    .is_lost = any_is_lost,
    .wait = wait_for_all,
};

// ---- open --------------------------------------------------------------------------------------

// The next name of the list, of n bytes.
static fx_status open_next(gpu_ranks *r, const fxi_gpu_options *opt, const char *name, size_t n,
                           fx_error *err)
{
    char own[24];
    snprintf(own, sizeof own, "%.*s", (int)(n < sizeof own ? n : sizeof own - 1), name);
    if (!fxi_gpu_is_name(own))
        return fxi_fail(err, FX_EINVAL, "device '%.100s': '%s' is not cuda:N", opt->name, own);
    if (r->set.n == FXI_MAX_RANK)
        return fxi_fail(err, FX_EINVAL, "device '%.100s' names more than %d GPUs", opt->name,
                        FXI_MAX_RANK);
    fxi_gpu_options one = *opt;
    one.name = own;
    FX_TRY(fxi_gpu_open(&one, &r->rank[r->set.n], err));
    const fxi_cu *last = &ranked_gpu(r, r->set.n++)->cu;
    for (int k = 0; k < r->set.n - 1; k++)
        if (ranked_gpu(r, k)->cu.ordinal == last->ordinal)
            return fxi_fail(err, FX_EINVAL, "device '%.100s' names %s twice", opt->name,
                            last->label);
    return FX_OK;
}

static fx_status join_ranks(gpu_ranks *r, fx_error *err)
{
    fxi_cu *cu[FXI_MAX_RANK];
    r->gathers = r->set.n > 2;
    size_t n = 0;
    for (int k = 0; k < r->set.n; k++) {
        fxi_gpu *g = ranked_gpu(r, k);
        cu[k] = &g->cu;
        g->n_addend = r->gathers ? r->set.n : 0;
        g->is_ranked = r->set.n > 1;
        g->first_pinned = &ranked_gpu(r, 0)->pinned;
        n += (size_t)snprintf(r->name + n, sizeof r->name - n, "%s%s", k ? "," : "", cu[k]->label);
    }
    snprintf(r->path, sizeof r->path, "%d x %s", r->set.n, r->rank[0]->path);
    return r->set.n > 1 ? fxi_comm_open(&r->comm, cu, r->set.n, err) : FX_OK;
}

fx_status fxi_gpu_ranks_open(const fxi_gpu_options *opt, fxi_device **out, fx_error *err)
{
    *out = NULL;
    gpu_ranks *r = calloc(1, sizeof *r);
    if (!r) return fxi_fail(err, FX_ENOMEM, "%s: no host memory", opt->name);
    r->set = (fxi_device_ranks){.device = r->rank, .sum = sum_h, .give_up = give_up_pass};
    r->device = (fxi_device){.ops = &ranks_ops,
                             .name = r->name,
                             .path = r->path,
                             .prefers_best = true,
                             .ranks = &r->set};
    fx_status st = FX_OK;
    const char *at = opt->name;
    for (size_t n; at && st == FX_OK; at = at[n] ? at + n + 1 : NULL) {
        n = strcspn(at, ",");
        st = open_next(r, opt, at, n, err);
    }
    if (st == FX_OK) st = join_ranks(r, err);
    if (st == FX_OK)
        *out = &r->device;
    else
        close_gpus(&r->device);
    return st;
}
