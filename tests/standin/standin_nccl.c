// standin_nccl.c - groups of calls become work of several streams; see standin_nccl.h.
#include "standin_nccl.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/comm/nccl_api.h"
#include "state.h"

enum {
    CUDA_ERROR = 1,
    INVALID_ARGUMENT = 4,
    INVALID_USAGE = 5,
    MAX_RANK = STANDIN_N_DEVICE,
    MAX_CALL = 64,
};

struct ncclComm {
    struct ncclComm *next;
    uint64_t clique; // of the ranks that were made together
    int rank, n_rank, device;
};

#define DECLARE(member, result, symbol, parameters) result symbol parameters;
FXI_NCCL_FUNCTIONS(DECLARE)
#undef DECLARE

static struct ncclComm *comms;
static standin_nccl_report counts;
static uint64_t n_clique, fail_at; // fail_at: 1 is the first call; 0: none fails
static fxi_nccl_status fail_status;

// What one rank is asked to do.
typedef struct nccl_call {
    struct ncclComm *comm; // NULL: done
    const float *from;
    float *to;
    size_t n;
    bool is_sum;
    vti_cu_stream stream;
} nccl_call;

static _Thread_local struct {
    int depth, n_call;
    fxi_nccl_status failed; // of a call in it
    nccl_call call[MAX_CALL];
} group;

// ---- calls -------------------------------------------------------------------------------------

static fxi_nccl_status nccl_breach(const char *what)
{
    (void)standin_breach(what);
    return INVALID_USAGE;
}

void standin_nccl_reset(void)
{
    counts = (standin_nccl_report){0};
    fail_at = 0;
    memset(&group, 0, sizeof group);
}

void standin_nccl_fail(uint64_t i, int status)
{
    fail_at = counts.n_call + i + 1;
    fail_status = status;
}

standin_nccl_report standin_nccl_look(void)
{
    standin_nccl_report r = counts;
    for (const struct ncclComm *c = comms; c; c = c->next) r.n_comm++;
    return r;
}

// Takes the mutex and counts a call that may fail. Not success: the call answers that.
static fxi_nccl_status enter_call(void)
{
    pthread_mutex_lock(&standin_mu);
    if (++counts.n_call != fail_at) return FXI_NCCL_SUCCESS;
    counts.n_failed++;
    return fail_status;
}

static fxi_nccl_status leave_call(fxi_nccl_status status)
{
    pthread_mutex_unlock(&standin_mu);
    return status;
}

static struct ncclComm **link_of_comm(const struct ncclComm *comm)
{
    struct ncclComm **at = &comms;
    while (*at && *at != comm) at = &(*at)->next;
    return *at ? at : NULL;
}

const char *ncclGetErrorString(fxi_nccl_status status)
{
    static const char *const texts[] = {
        "no error",       "unhandled cuda error", "unhandled system error",
        "internal error", "invalid argument",     "invalid usage"};
    return status >= 0 && status < 6 ? texts[status] : "unknown result code";
}

// ---- communicators -----------------------------------------------------------------------------

static bool odd_devices(int n_rank, const int *devices)
{
    for (int i = 0; i < n_rank; i++) {
        if (!standin_is_device(devices[i])) return true;
        for (int k = 0; k < i; k++)
            if (devices[k] == devices[i]) return true;
    }
    return n_rank < 1;
}

fxi_nccl_status ncclCommInitAll(fxi_nccl_comm *comm, int n_rank, const int *devices)
{
    const fxi_nccl_status r = enter_call();
    if (r != FXI_NCCL_SUCCESS) return leave_call(r);
    if (n_rank > MAX_RANK || odd_devices(n_rank, devices))
        return leave_call(nccl_breach("NCCL: ranks without a device of their own"));
    n_clique++;
    for (int i = 0; i < n_rank; i++) {
        comm[i] = malloc(sizeof *comm[i]);
        if (!comm[i]) return leave_call(FXI_NCCL_SYSTEM_ERROR);
        *comm[i] = (struct ncclComm){comms, n_clique, i, n_rank, devices[i]};
        comms = comm[i];
    }
    return leave_call(r);
}

static fxi_nccl_status end_comm(fxi_nccl_comm comm)
{
    struct ncclComm **at = link_of_comm(comm);
    if (!at) return nccl_breach("NCCL: ends what it did not make");
    *at = comm->next;
    free(comm);
    return FXI_NCCL_SUCCESS;
}

fxi_nccl_status ncclCommDestroy(fxi_nccl_comm comm)
{
    pthread_mutex_lock(&standin_mu);
    return leave_call(end_comm(comm));
}

fxi_nccl_status ncclCommAbort(fxi_nccl_comm comm)
{
    pthread_mutex_lock(&standin_mu);
    counts.n_aborted++;
    return leave_call(end_comm(comm));
}

// ---- work --------------------------------------------------------------------------------------

typedef struct nccl_work {
    int n_rank;
    size_t n;
    bool is_sum;
    const float *from[MAX_RANK];
    float *to[MAX_RANK];
} nccl_work;

static float add_ranks(const nccl_work *w, size_t i)
{
    const int first = w->n_rank > 2 && w->n > STANDIN_NCCL_SMALL;
    float sum = w->from[first][i];
    for (int k = 1; k < w->n_rank; k++) sum += w->from[(first + k) % w->n_rank][i];
    return sum;
}

static void sum_all(const nccl_work *w)
{
    for (size_t i = 0; i < w->n; i++) {
        const float sum = add_ranks(w, i);
        for (int r = 0; r < w->n_rank; r++) w->to[r][i] = sum;
    }
}

static void gather_all(const nccl_work *w)
{
    for (int r = 0; r < w->n_rank; r++)
        for (int k = 0; k < w->n_rank; k++)
            memmove(w->to[r] + (size_t)k * w->n, w->from[k], w->n * sizeof(float));
}

static void run_work(void *arg)
{
    const nccl_work *w = arg;
    (w->is_sum ? sum_all : gather_all)(w);
}

// The streams of all ranks wait for each other before and after the work, which is rank 0's.
static fxi_nccl_status give_work(const nccl_call *const *call, int n_rank)
{
    nccl_work *w = calloc(1, sizeof *w);
    standin_task task = {.run = run_work, .arg = w};
    vti_cu_result r = VTI_CU_SUCCESS;
    if (!w) return FXI_NCCL_SYSTEM_ERROR;
    *w = (nccl_work){.n_rank = n_rank, .n = call[0]->n, .is_sum = call[0]->is_sum};
    const size_t n_bytes = w->n * sizeof(float), to_bytes = w->is_sum ? n_bytes : n_bytes * n_rank;
    for (int i = 0; i < n_rank; i++) {
        w->from[i] = call[i]->from;
        w->to[i] = call[i]->to;
        task.range[2 * i] = (standin_range){(vti_cu_ptr)w->from[i], n_bytes, false};
        task.range[2 * i + 1] = (standin_range){(vti_cu_ptr)w->to[i], to_bytes, true};
    }
    counts.n_sum += w->is_sum;
    counts.n_gather += !w->is_sum;
    for (int i = 1; i < n_rank && r == VTI_CU_SUCCESS; i++)
        r = standin_give_order(call[0]->stream, call[i]->stream);
    if (r != VTI_CU_SUCCESS)
        free(w);
    else
        r = standin_give_task(call[0]->stream, &task);
    for (int i = 1; i < n_rank && r == VTI_CU_SUCCESS; i++)
        r = standin_give_order(call[i]->stream, call[0]->stream);
    return r == VTI_CU_SUCCESS ? FXI_NCCL_SUCCESS : CUDA_ERROR;
}

// ---- groups ------------------------------------------------------------------------------------

static nccl_call *next_call_of(uint64_t clique, int rank)
{
    for (int i = 0; i < group.n_call; i++) {
        nccl_call *c = &group.call[i];
        if (c->comm && c->comm->clique == clique && c->comm->rank == rank) return c;
    }
    return NULL;
}

// The next call of every rank of a communicator, together.
static fxi_nccl_status give_together(const struct ncclComm *comm)
{
    const nccl_call *call[MAX_RANK];
    for (int i = 0; i < comm->n_rank; i++) {
        call[i] = next_call_of(comm->clique, i);
        if (!call[i]) return nccl_breach("NCCL: a group without all ranks; it would hang");
        if (call[i]->n != call[0]->n || call[i]->is_sum != call[0]->is_sum)
            return nccl_breach("NCCL: ranks that do different things; they would hang");
    }
    const fxi_nccl_status r = give_work(call, comm->n_rank);
    for (int i = 0; i < comm->n_rank; i++) ((nccl_call *)call[i])->comm = NULL;
    return r;
}

fxi_nccl_status ncclGroupStart(void)
{
    const fxi_nccl_status r = enter_call();
    if (r == FXI_NCCL_SUCCESS) group.depth++;
    return leave_call(r);
}

static fxi_nccl_status end_group(fxi_nccl_status r)
{
    if (group.depth == 0) return nccl_breach("NCCL: the end of no group");
    if (--group.depth > 0) return r;
    if (r == FXI_NCCL_SUCCESS) r = group.failed;
    for (int i = 0; i < group.n_call && r == FXI_NCCL_SUCCESS; i++)
        if (group.call[i].comm) r = give_together(group.call[i].comm);
    memset(&group, 0, sizeof group);
    return r;
}

// A group that fails to end has ended.
fxi_nccl_status ncclGroupEnd(void)
{
    return leave_call(end_group(enter_call()));
}

static bool is_of_device(const void *at, int device)
{
    const int owner = standin_alloc_device((vti_cu_ptr)at);
    return (uintptr_t)at % sizeof(float) == 0 && (owner < 0 || owner == device);
}

static const char *odd_call(const nccl_call *c, fxi_nccl_number type)
{
    if (!link_of_comm(c->comm)) return "NCCL: a rank that is none";
    if (type != FXI_NCCL_F32 || c->n == 0) return "NCCL: numbers that are not f32, or none";
    if (standin_stream_device(c->stream) != c->comm->device) return "NCCL: a foreign stream";
    if (!is_of_device(c->from, c->comm->device) || !is_of_device(c->to, c->comm->device))
        return "NCCL: memory of another device, or not aligned";
    if (c->comm->n_rank > 1 && group.depth == 0)
        return "NCCL: one rank of several outside of a group; it would hang";
    return group.n_call == MAX_CALL ? "NCCL: a group of too many calls for the stand-in" : NULL;
}

static fxi_nccl_status take_call(const nccl_call *c, fxi_nccl_number type)
{
    fxi_nccl_status r = enter_call();
    const char *odd = r == FXI_NCCL_SUCCESS ? odd_call(c, type) : NULL;
    if (odd) r = nccl_breach(odd);
    if (r == FXI_NCCL_SUCCESS && group.depth == 0)
        r = give_work(&c, 1);
    else if (r == FXI_NCCL_SUCCESS)
        group.call[group.n_call++] = *c;
    else if (group.failed == FXI_NCCL_SUCCESS)
        group.failed = r;
    return leave_call(r);
}

fxi_nccl_status ncclAllReduce(const void *from, void *to, size_t n, fxi_nccl_number type,
                              fxi_nccl_op op, fxi_nccl_comm comm, vti_cu_stream stream)
{
    const nccl_call c = {comm, from, to, n, true, stream};
    return take_call(&c, op == FXI_NCCL_SUM ? type : -1);
}

fxi_nccl_status ncclAllGather(const void *from, void *to, size_t n, fxi_nccl_number type,
                              fxi_nccl_comm comm, vti_cu_stream stream)
{
    const nccl_call c = {comm, from, to, n, false, stream};
    return take_call(&c, type);
}
