// test_gpu_comm.c - several GPUs that add and gather together, on the stand-ins for the driver and
// for NCCL: what comes out, in which order it happens, and every call failing once.
#include "gpu_missing.h"
#include "suite.h"

#include "unit/cmocka_all.h"

#include <string.h>

#include "gpu/comm/comm.h"
#include "standin/standin.h"
#include "standin/standin_nccl.h"

enum { MAX_RANK = STANDIN_N_DEVICE, N = 100, LARGE = STANDIN_NCCL_SMALL + 1 };

static int begin_test(void **state)
{
    (void)state;
    standin_reset();
    standin_nccl_reset();
    gpu_missing_library = gpu_missing_symbol = NULL;
    return 0;
}

static int end_test(void **state)
{
    (void)state;
    if (standin_left()) print_error("%s\n", standin_left());
    return standin_left() || standin_nccl_look().n_comm;
}

// ---- devices with a row of numbers each --------------------------------------------------------

typedef struct comm_rig {
    int n_rank;
    size_t n;
    fxi_cu cu[MAX_RANK];
    fxi_cu *all[MAX_RANK];
    float *host[MAX_RANK]; // pinned, [n]
    float *row[MAX_RANK];  // of the devices, [n_rank][n]
    fxi_comm comm;
} comm_rig;

static fxi_cu *enter_rank(comm_rig *rig, int i)
{
    assert_int_equal(fxi_cu_enter(&rig->cu[i], NULL), FX_OK);
    return &rig->cu[i];
}

static void upload_to(comm_rig *rig, int i, float *to)
{
    fxi_cu *cu = enter_rank(rig, i);
    const size_t n_bytes = rig->n * sizeof(float);
    assert_int_equal(fxi_cu_upload(cu, cu->compute, to, rig->host[i], n_bytes, NULL), FX_OK);
    fxi_cu_leave(cu, FX_OK);
}

static void open_rank(comm_rig *rig, int i)
{
    fxi_cu *cu = rig->all[i] = &rig->cu[i];
    void *host = NULL, *row = NULL;
    assert_int_equal(fxi_cu_open(cu, i, NULL), FX_OK);
    assert_int_equal(fxi_cu_enter(cu, NULL), FX_OK);
    assert_int_equal(fxi_cu_pin(cu, rig->n_rank * rig->n * sizeof(float), &host, NULL), FX_OK);
    assert_int_equal(fxi_cu_alloc(cu, rig->n_rank * rig->n * sizeof(float), &row, NULL), FX_OK);
    fxi_cu_leave(cu, FX_OK);
    rig->host[i] = host;
    rig->row[i] = row;
}

static void open_rig(comm_rig *rig, int n_rank, size_t n)
{
    *rig = (comm_rig){.n_rank = n_rank, .n = n};
    for (int i = 0; i < n_rank; i++) open_rank(rig, i);
}

static void close_rig(comm_rig *rig)
{
    fxi_comm_close(&rig->comm);
    for (int i = 0; i < rig->n_rank; i++) {
        fxi_cu *cu = enter_rank(rig, i);
        fxi_cu_unpin(cu, rig->host[i]);
        fxi_cu_free(cu, rig->row[i]);
        fxi_cu_leave(cu, FX_OK);
        fxi_cu_close(cu);
    }
}

// So that the order of a sum of three or more shows.
static float number_of(int rank, size_t i)
{
    static const float size[MAX_RANK] = {1e8f, -1e8f, 1.25f, 0.37f};
    return size[rank] + (float)i * 0.01f;
}

static void upload_rows(comm_rig *rig)
{
    for (int r = 0; r < rig->n_rank; r++) {
        for (size_t i = 0; i < rig->n; i++) rig->host[r][i] = number_of(r, i);
        upload_to(rig, r, rig->row[r]);
    }
}

static void give_download(comm_rig *rig, int rank, size_t n_number)
{
    fxi_cu *cu = enter_rank(rig, rank);
    assert_int_equal(fxi_cu_download(cu, cu->compute, rig->host[rank], rig->row[rank],
                                     n_number * sizeof(float), NULL),
                     FX_OK);
    fxi_cu_leave(cu, FX_OK);
}

// Waits for one rank only, and shows its n_number numbers in host[rank].
static void download_row(comm_rig *rig, int rank, size_t n_number)
{
    give_download(rig, rank, n_number);
    fxi_cu *cu = enter_rank(rig, rank);
    assert_int_equal(fxi_cu_wait(cu, cu->compute, NULL), FX_OK);
    fxi_cu_leave(cu, FX_OK);
}

// ---- sums and gathers --------------------------------------------------------------------------

static float sum_from(int first, int n_rank, size_t i)
{
    float sum = number_of(first, i);
    for (int k = 1; k < n_rank; k++) sum += number_of((first + k) % n_rank, i);
    return sum;
}

// Each rank is asked last first, so that none waits for its elders by chance.
static void check_sum(int n_rank, size_t n, int first)
{
    comm_rig rig;
    open_rig(&rig, n_rank, n);
    assert_int_equal(fxi_comm_open(&rig.comm, rig.all, n_rank, NULL), FX_OK);
    upload_rows(&rig);
    assert_int_equal(fxi_comm_sum(&rig.comm, rig.row, n, NULL), FX_OK);
    for (int r = n_rank - 1; r >= 0; r--) {
        download_row(&rig, r, n);
        for (size_t i = 0; i < n; i++) assert_true(rig.host[r][i] == sum_from(first, n_rank, i));
    }
    close_rig(&rig);
}

FX_TEST(test_every_rank_gets_the_sum)
{
    for (int n_rank = 2; n_rank <= MAX_RANK; n_rank++) check_sum(n_rank, N, 0);
    assert_int_equal(standin_nccl_look().n_sum, MAX_RANK - 1);
}

// What the library does not promise shows on the stand-in, too: a fixed order needs a gather.
FX_TEST(test_with_three_ranks_the_order_depends_on_the_size)
{
    assert_true(sum_from(0, 3, 1) != sum_from(1, 3, 1));
    check_sum(2, LARGE, 0);
    check_sum(2, LARGE, 1);
    check_sum(3, LARGE, 1);
}

static void check_gather(int n_rank, bool in_place)
{
    comm_rig rig;
    float *from[MAX_RANK];
    open_rig(&rig, n_rank, N);
    assert_int_equal(fxi_comm_open(&rig.comm, rig.all, n_rank, NULL), FX_OK);
    upload_rows(&rig);
    for (int r = 0; r < n_rank; r++) {
        fxi_cu *cu = enter_rank(&rig, r);
        void *apart = NULL;
        if (!in_place) assert_int_equal(fxi_cu_alloc(cu, N * sizeof(float), &apart, NULL), FX_OK);
        from[r] = in_place ? rig.row[r] + (size_t)r * N : apart;
        fxi_cu_leave(cu, FX_OK);
        upload_to(&rig, r, from[r]);
    }
    assert_int_equal(fxi_comm_gather(&rig.comm, from, rig.row, N, NULL), FX_OK);
    for (int r = n_rank - 1; r >= 0; r--) {
        download_row(&rig, r, (size_t)n_rank * N);
        for (size_t i = 0; i < (size_t)n_rank * N; i++)
            assert_true(rig.host[r][i] == number_of((int)(i / N), i % N));
        fxi_cu *cu = enter_rank(&rig, r);
        if (!in_place) fxi_cu_free(cu, from[r]);
        fxi_cu_leave(cu, FX_OK);
    }
    close_rig(&rig);
}

FX_TEST(test_every_rank_gets_all_rows)
{
    for (int n_rank = 2; n_rank <= MAX_RANK; n_rank++) {
        check_gather(n_rank, false);
        check_gather(n_rank, true);
    }
    assert_int_equal(standin_nccl_look().n_gather, 2 * (MAX_RANK - 1));
}

// A kernel that still runs on one rank holds up the sum of the other, and nothing before it.
FX_TEST(test_a_sum_waits_for_every_rank)
{
    comm_rig rig;
    open_rig(&rig, 2, N);
    assert_int_equal(fxi_comm_open(&rig.comm, rig.all, 2, NULL), FX_OK);
    upload_rows(&rig);
    standin_settle();
    standin_launch(rig.cu[1].compute, (uintptr_t)rig.row[1], 0, N * sizeof(float));
    assert_int_equal(fxi_comm_sum(&rig.comm, rig.row, N, NULL), FX_OK);
    rig.host[0][0] = -1;
    give_download(&rig, 0, N);
    standin_settle();
    assert_true(rig.host[0][0] == -1);
    standin_end_kernels(rig.cu[1].compute, 1);
    download_row(&rig, 0, N);
    for (size_t i = 0; i < N; i++) assert_true(rig.host[0][i] == number_of(0, i));
    close_rig(&rig);
}

// ---- refusals and failures ---------------------------------------------------------------------

static void assert_no_comm(int n_rank, const char *text)
{
    comm_rig rig;
    fx_error err = {0};
    open_rig(&rig, 2, N);
    assert_int_equal(fxi_comm_open(&rig.comm, rig.all, n_rank, &err), FX_EINVAL);
    assert_string_equal(err.text, text);
    assert_int_equal(rig.comm.n_rank, 0);
    close_rig(&rig);
}

FX_TEST(test_what_is_missing_is_said_in_one_line)
{
    gpu_missing_library = "libnccl";
    assert_no_comm(2, "cuda:0, cuda:1: libnccl.so.2, NVIDIA's NCCL, cannot be loaded");
    gpu_missing_library = NULL;
    gpu_missing_symbol = "ncclAllGather";
    assert_no_comm(2, "cuda:0, cuda:1: NVIDIA's NCCL is too old: libnccl.so.2 has no function "
                      "ncclAllGather");
    assert_no_comm(9, "9 GPUs cannot compute together: 2 to 8 can");
    assert_no_comm(1, "1 GPUs cannot compute together: 2 to 8 can");
}

static fx_status use_comm(comm_rig *rig, fx_error *err)
{
    FX_TRY(fxi_comm_open(&rig->comm, rig->all, 2, err));
    FX_TRY(fxi_comm_sum(&rig->comm, rig->row, 1, err));
    float *const from[] = {rig->row[0], rig->row[1] + 1};
    return fxi_comm_gather(&rig->comm, from, rig->row, 1, err);
}

// A group that fails is ended, and its ranks are given up; the next ones work.
FX_TEST(test_every_call_failing_is_one_line_and_leaks_nothing)
{
    comm_rig rig;
    open_rig(&rig, 2, N);
    for (uint64_t i = 0;; i++) {
        fx_error err = {0};
        standin_nccl_reset();
        standin_nccl_fail(i, i % 2 ? 1 : FXI_NCCL_SYSTEM_ERROR);
        const fx_status st = use_comm(&rig, &err);
        if (!standin_nccl_look().n_failed) break;
        assert_int_equal(st, i % 2 ? FX_EINTERNAL : FX_ENOMEM);
        assert_memory_equal(err.text, "cuda:0, cuda:1: nccl", 20);
        assert_null(strchr(err.text, '\n'));
        fxi_comm_close(&rig.comm);
        assert_int_equal(standin_nccl_look().n_aborted, i > 0 ? 2 : 0);
        assert_int_equal(standin_nccl_look().n_comm, 0);
    }
    assert_int_equal(standin_nccl_look().n_call, 9);
    close_rig(&rig);
}

// As when a rank's context is lost.
FX_TEST(test_ranks_are_given_up)
{
    comm_rig rig;
    open_rig(&rig, 2, N);
    assert_int_equal(use_comm(&rig, NULL), FX_OK);
    fxi_comm_abort(&rig.comm);
    fxi_comm_abort(&rig.comm);
    assert_int_equal(standin_nccl_look().n_aborted, 2);
    assert_int_equal(standin_nccl_look().n_comm, 0);
    assert_int_equal(rig.comm.n_rank, 2);
    close_rig(&rig);
}

FX_TEST(test_names_of_errors)
{
    comm_rig rig;
    fx_error err = {0};
    open_rig(&rig, 2, N);
    standin_nccl_fail(3, 1);
    assert_int_equal(use_comm(&rig, &err), FX_EINTERNAL);
    assert_string_equal(err.text, "cuda:0, cuda:1: ncclAllReduce: unhandled cuda error");
    close_rig(&rig);
}

// ---- the stand-in finds what would hang --------------------------------------------------------

static void give_sum(const comm_rig *rig, int rank, size_t n, int stream_of)
{
    const fxi_comm *c = &rig->comm;
    (void)c->api.all_reduce(rig->row[rank], rig->row[rank], n, FXI_NCCL_F32, FXI_NCCL_SUM,
                            c->comm[rank], rig->cu[stream_of].compute);
}

FX_TEST(test_the_stand_in_finds_what_would_hang)
{
    // The second rank's sum, if any, and the stream that it is given.
    static const struct {
        bool is_group;
        size_t n_second;
        int stream_second;
        const char *breach;
    } plants[] = {
        {false, 0, 0, "NCCL: one rank of several outside of a group; it would hang"},
        {true, 0, 0, "NCCL: a group without all ranks; it would hang"},
        {true, N - 1, 1, "NCCL: ranks that do different things; they would hang"},
        {true, N, 0, "NCCL: a foreign stream"},
    };
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
        comm_rig rig;
        open_rig(&rig, 2, N);
        assert_int_equal(fxi_comm_open(&rig.comm, rig.all, 2, NULL), FX_OK);
        if (plants[i].is_group) (void)rig.comm.api.group_start();
        give_sum(&rig, 0, N, 0);
        if (plants[i].n_second) give_sum(&rig, 1, plants[i].n_second, plants[i].stream_second);
        if (plants[i].is_group) (void)rig.comm.api.group_end();
        const standin_report r = standin_look();
        assert_int_equal(r.n_breach, 1);
        assert_string_equal(r.breach, plants[i].breach);
        close_rig(&rig);
        standin_reset();
        standin_nccl_reset();
    }
}

FX_RUN_EACH(test_gpu_comm, begin_test, end_test)
