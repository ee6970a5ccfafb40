// comm.c - see comm.h.
#include "gpu/comm/comm.h"

#include <stdio.h>
#include <string.h>

static const char *const nccl_symbols[] = {FXI_NCCL_FUNCTIONS(FXI_DL_SYMBOL)};
const fxi_dl_source fxi_nccl_source = {.label = "NVIDIA's NCCL",
                                       .file = {"libnccl.so.2"},
                                       .symbol = nccl_symbols,
                                       .n_symbol = sizeof nccl_symbols / sizeof *nccl_symbols};

static fx_status check_comm(const fxi_comm *c, fxi_nccl_status r, const char *what, fx_error *err)
{
    if (r == FXI_NCCL_SUCCESS) return FX_OK;
    const char *text = c->api.get_error_text(r);
    return fxi_fail(err, r == FXI_NCCL_SYSTEM_ERROR ? FX_ENOMEM : FX_EINTERNAL, "%s: %s: %s",
                    c->label, what, text ? text : "an unknown error");
}

// ---- open and close ----------------------------------------------------------------------------

static void name_ranks(fxi_comm *c)
{
    size_t n = 0;
    for (int i = 0; i < c->n_rank; i++)
        n += (size_t)snprintf(c->label + n, sizeof c->label - n, "%s%s", i > 0 ? ", " : "",
                              c->cu[i]->label);
}

// FXI_HAS_NCCL is the build option FX_NCCL.
static fx_status load_nccl(fxi_comm *c, fx_error *err)
{
    if (!FXI_HAS_NCCL)
        return fxi_fail(err, FX_EINVAL, "%s: this program was built without NCCL (FX_NCCL)",
                        c->label);
    const fx_status st = fxi_dl_load(&fxi_nccl_source, &c->api, err);
    return st != FX_OK && err ? fxi_fail_in(err, "%s", c->label) : st;
}

static fx_status make_ranks(fxi_comm *c, fx_error *err)
{
    int device[FXI_COMM_MAX_RANK];
    for (int i = 0; i < c->n_rank; i++) device[i] = c->cu[i]->ordinal;
    if (c->n_rank == 1) return FX_OK;
    FX_TRY(load_nccl(c, err));
    FX_TRY(fxi_cu_enter(c->cu[0], err));
    const fx_status st =
        check_comm(c, c->api.init_all(c->comm, c->n_rank, device), "ncclCommInitAll", err);
    fxi_cu_leave(c->cu[0]);
    return st;
}

fx_status fxi_comm_open(fxi_comm *c, fxi_cu *const *cu, int n_rank, fx_error *err)
{
    *c = (fxi_comm){0};
    if (n_rank < 1 || n_rank > FXI_COMM_MAX_RANK)
        return fxi_fail(err, FX_EINVAL, "%d GPUs cannot compute together: at most %d can", n_rank,
                        FXI_COMM_MAX_RANK);
    memcpy(c->cu, cu, (size_t)n_rank * sizeof *cu);
    c->n_rank = n_rank;
    name_ranks(c);
    const fx_status st = make_ranks(c, err);
    if (st == FX_OK) return FX_OK;
    memset(c->comm, 0, sizeof c->comm); // none was made
    fxi_comm_close(c);
    return st;
}

// abort or destroy of the library
static void end_ranks(fxi_comm *c, fxi_nccl_status (*end)(fxi_nccl_comm comm))
{
    const bool entered = c->comm[0] && fxi_cu_enter(c->cu[0], NULL) == FX_OK;
    for (int i = 0; i < c->n_rank; i++)
        if (c->comm[i]) (void)end(c->comm[i]);
    if (entered) fxi_cu_leave(c->cu[0]);
    memset(c->comm, 0, sizeof c->comm);
}

void fxi_comm_abort(fxi_comm *c)
{
    end_ranks(c, c->api.abort);
}

void fxi_comm_close(fxi_comm *c)
{
    end_ranks(c, c->is_broken ? c->api.abort : c->api.destroy);
    fxi_dl_unload(&c->api);
    *c = (fxi_comm){0};
}

bool fxi_comm_is_open(const fxi_comm *c)
{
    return c->n_rank > 0;
}

// ---- work of all ranks -------------------------------------------------------------------------

typedef struct comm_work {
    const char *name; // NCCL's
    const float *const *from;
    float *const *to;
    size_t n;
    bool is_sum;
} comm_work;

static fxi_nccl_status give_rank(const fxi_comm *c, const comm_work *w, int rank)
{
    const vti_cu_stream s = c->cu[rank]->compute;
    if (w->is_sum)
        return c->api.all_reduce(w->from[rank], w->to[rank], w->n, FXI_NCCL_F32, FXI_NCCL_SUM,
                                 c->comm[rank], s);
    return c->api.all_gather(w->from[rank], w->to[rank], w->n, FXI_NCCL_F32, c->comm[rank], s);
}

// A group that was begun is ended, whatever happens in it.
static fx_status give_ranks(const fxi_comm *c, const comm_work *w, fx_error *err)
{
    FX_TRY(check_comm(c, c->api.group_start(), "ncclGroupStart", err));
    fxi_nccl_status given = FXI_NCCL_SUCCESS;
    for (int i = 0; i < c->n_rank && given == FXI_NCCL_SUCCESS; i++) given = give_rank(c, w, i);
    const fxi_nccl_status ended = c->api.group_end();
    FX_TRY(check_comm(c, given, w->name, err));
    return check_comm(c, ended, "ncclGroupEnd", err);
}

static fx_status run_ranks(fxi_comm *c, const comm_work *w, fx_error *err)
{
    FX_TRY(fxi_cu_enter(c->cu[0], err));
    const fx_status st = give_ranks(c, w, err);
    fxi_cu_leave(c->cu[0]);
    c->is_broken |= st != FX_OK;
    return st;
}

fx_status fxi_comm_sum(fxi_comm *c, float *const *data, size_t n, fx_error *err)
{
    const float *from[FXI_COMM_MAX_RANK];
    for (int i = 0; i < c->n_rank; i++) from[i] = data[i];
    const comm_work w = {"ncclAllReduce", from, data, n, true};
    return c->n_rank == 1 || n == 0 ? FX_OK : run_ranks(c, &w, err);
}

fx_status fxi_comm_gather(fxi_comm *c, const float *const *from, float *const *to, size_t n,
                          fx_error *err)
{
    const comm_work w = {"ncclAllGather", from, to, n, false};
    if (c->n_rank > 1 && n > 0) return run_ranks(c, &w, err);
    if (n == 0 || from[0] == to[0]) return FX_OK;
    FX_TRY(fxi_cu_enter(c->cu[0], err));
    const fx_status st =
        fxi_cu_copy(c->cu[0], c->cu[0]->compute, to[0], from[0], n * sizeof *from[0], err);
    fxi_cu_leave(c->cu[0]);
    return st;
}
