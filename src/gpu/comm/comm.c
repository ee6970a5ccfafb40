// comm.c - see comm.h.
#include "gpu/comm/comm.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static fx_status check_comm(const fxi_comm *c, fxi_nccl_status r, const char *what, fx_error *err)
{
    if (r == FXI_NCCL_SUCCESS) return FX_OK;
    const char *text = c->api.get_error_text(r);
    return fxi_fail(err, r == FXI_NCCL_SYSTEM_ERROR ? FX_ENOMEM : FX_EINTERNAL, "%s: %s: %s",
                    c->label, what, text ? text : "an unknown error");
}

// ---- open and close ----------------------------------------------------------------------------

// FXI_HAS_NCCL is the build option FX_NCCL. The table is written as bytes: C has no cast from the
// void * of dlsym to a pointer to a function.
static fx_status load_nccl(fxi_comm *c, fx_error *err)
{
#define SYMBOL(member, result, symbol, parameters) #symbol,
    static const char *const symbols[] = {FXI_NCCL_FUNCTIONS(SYMBOL)};
#undef SYMBOL
    if (!FXI_HAS_NCCL)
        return fxi_fail(err, FX_EINVAL, "%s: this program was built without NCCL (FX_NCCL)",
                        c->label);
    c->api.library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!c->api.library)
        return fxi_fail(err, FX_EINVAL, "%s: libnccl.so.2, NVIDIA's NCCL, cannot be loaded",
                        c->label);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(c->api.library, symbols[i]);
        if (!symbol)
            return fxi_fail(err, FX_EINVAL,
                            "%s: NVIDIA's NCCL is too old: libnccl.so.2 has no function %s",
                            c->label, symbols[i]);
        memcpy((char *)&c->api + (1 + i) * sizeof symbol, &symbol, sizeof symbol);
    }
    return FX_OK;
}

fx_status fxi_comm_open(fxi_comm *c, fxi_cu *const *cu, int n_rank, fx_error *err)
{
    int device[FXI_COMM_MAX_RANK];
    size_t n = 0;
    *c = (fxi_comm){0};
    if (n_rank < 2 || n_rank > FXI_COMM_MAX_RANK)
        return fxi_fail(err, FX_EINVAL, "%d GPUs cannot compute together: 2 to %d can", n_rank,
                        FXI_COMM_MAX_RANK);
    c->n_rank = n_rank;
    for (int i = 0; i < n_rank; i++) {
        c->cu[i] = cu[i];
        device[i] = cu[i]->ordinal;
        n += (size_t)snprintf(c->label + n, sizeof c->label - n, "%s%s", i > 0 ? ", " : "",
                              cu[i]->label);
    }
    fx_status st = load_nccl(c, err);
    if (st == FX_OK) st = fxi_cu_enter(cu[0], err);
    if (st == FX_OK)
        st = fxi_cu_leave(
            cu[0], check_comm(c, c->api.init_all(c->comm, n_rank, device), "ncclCommInitAll", err));
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
    if (entered) fxi_cu_leave(c->cu[0], FX_OK);
    memset(c->comm, 0, sizeof c->comm);
}

void fxi_comm_abort(fxi_comm *c)
{
    end_ranks(c, c->api.abort);
}

void fxi_comm_close(fxi_comm *c)
{
    end_ranks(c, c->is_broken ? c->api.abort : c->api.destroy);
    if (c->api.library) dlclose(c->api.library);
    *c = (fxi_comm){0};
}

// ---- work of all ranks -------------------------------------------------------------------------

// A group that was begun is ended, whatever happens in it.
static fx_status run_ranks(fxi_comm *c, bool is_sum, float *const *from, float *const *to, size_t n,
                           fx_error *err)
{
    FX_TRY(fxi_cu_enter(c->cu[0], err));
    fx_status st = check_comm(c, c->api.group_start(), "ncclGroupStart", err);
    if (st == FX_OK) {
        fxi_nccl_status given = FXI_NCCL_SUCCESS;
        for (int i = 0; i < c->n_rank && given == FXI_NCCL_SUCCESS; i++) {
            const vti_cu_stream s = c->cu[i]->compute;
            given = is_sum ? c->api.all_reduce(from[i], to[i], n, FXI_NCCL_F32, FXI_NCCL_SUM,
                                               c->comm[i], s)
                           : c->api.all_gather(from[i], to[i], n, FXI_NCCL_F32, c->comm[i], s);
        }
        const fxi_nccl_status ended = c->api.group_end();
        st = check_comm(c, given, is_sum ? "ncclAllReduce" : "ncclAllGather", err);
        if (st == FX_OK) st = check_comm(c, ended, "ncclGroupEnd", err);
    }
    c->is_broken |= st != FX_OK;
    return fxi_cu_leave(c->cu[0], st);
}

fx_status fxi_comm_sum(fxi_comm *c, float *const *data, size_t n, fx_error *err)
{
    return run_ranks(c, true, data, data, n, err);
}

fx_status fxi_comm_gather(fxi_comm *c, float *const *from, float *const *to, size_t n,
                          fx_error *err)
{
    return run_ranks(c, false, from, to, n, err);
}
