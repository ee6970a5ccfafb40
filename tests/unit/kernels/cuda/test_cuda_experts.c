// test_cuda_experts.c - the router's choice, the places of chosen rows and the sum of the experts'
// results are those of the host.
#include "cuda_test.h"
#include "suite.h"

typedef struct mixture {
    int n_row, n_expert, n_used;
} mixture;

static void check_route(mixture m, const fxi_router *router, bool has_choice, bool has_ties)
{
    const size_t n = (size_t)m.n_row * (size_t)m.n_expert,
                 used = (size_t)m.n_row * (size_t)m.n_used;
    float *x = random_floats(n, EVEN, 1), *bias = random_floats((size_t)m.n_expert, EVEN, 2),
          *choice = random_floats((size_t)m.n_expert, EVEN, 3);
    for (size_t i = 0; has_ties && i < n; i++) x[i] = (float)(int)(x[i] * 3);
    for (int e = 0; has_ties && e < m.n_expert; e++) bias[e] = 0;
    int32_t *chosen = zeroed(used, sizeof *chosen);
    int *want = zeroed(used, sizeof *want);
    float *share = floats(used), *want_share = floats(used);
    fxi_cuda_route_args a = {.logits = x,
                             .bias = bias,
                             .count = {m.n_row, NULL},
                             .choice_bias = has_choice ? choice : NULL,
                             .router = *router,
                             .chosen = chosen,
                             .share = share};
    launch(FXI_CUDA_ROUTE, &a);
    for (int row = 0; row < m.n_row; row++) {
        float *logit = x + row * m.n_expert, *w = want_share + row * m.n_used;
        ref_path()->add(logit, bias, m.n_expert);
        fxi_route_experts(router, logit, a.choice_bias, want + row * m.n_used, w);
    }
    assert_memory_equal(chosen, want, used * sizeof *want);
    assert_same("share", share, want_share, used);
    guarded_free_all(x, bias, choice, chosen, want, share, want_share);
}

FX_TEST(test_the_router_chooses_as_the_host)
{
    static const mixture all[] = {{5, 8, 2}, {3, 60, 4},  {2, 128, 8},
                                  {3, 1, 1}, {2, 33, 33}, {1, 512, 10}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int bits = 0; bits < 32; bits++) {
            const mixture *m = &all[i];
            fxi_router r = {.n_expert = m->n_expert,
                            .n_used = m->n_used,
                            .score = bits & 1 ? FXI_ROUTE_SIGMOID : FXI_ROUTE_SOFTMAX,
                            .norm = bits & 2 ? FXI_ROUTE_ALL : FXI_ROUTE_CHOSEN,
                            .scale = 2.5f};
            if (bits & 4 && m->n_expert % 4 == 0) r.n_group = m->n_expert > 300 ? 64 : 4;
            if (r.n_group) r.n_group_used = r.n_group / 2;
            check_route(*m, &r, bits & 8, bits & 16);
        }
}

// The places of choices, and what they say about each other.
static void check_places(mixture m)
{
    const int n = m.n_row * m.n_used;
    int32_t *all = zeroed((size_t)(4 * n + m.n_expert + 1), sizeof *all);
    fxi_cuda_place_args a = {.chosen = all,
                             .count = {m.n_row, NULL},
                             .n_expert = m.n_expert,
                             .n_used = m.n_used,
                             .place = all + n,
                             .place_row = all + 2 * n,
                             .place_expert = all + 3 * n,
                             .range = all + 4 * n};
    for (int i = 0; i < n; i++) all[i] = (i * 7 + i / 3) % m.n_expert;
    launch(FXI_CUDA_PLACE, &a);
    int at = 0; // in the order of experts, then of rows
    for (int e = 0; e < m.n_expert; e++) {
        assert_int_equal(a.range[e], at);
        for (int i = 0; i < n; i++) {
            if (all[i] != e) continue;
            assert_int_equal(a.place[i], at);
            assert_int_equal(a.place_row[at], i / m.n_used);
            assert_int_equal(a.place_expert[at++], e);
        }
    }
    assert_int_equal(a.range[m.n_expert], n);
    guarded_free(all);
}

FX_TEST(test_choices_are_placed_by_expert_and_row)
{
    check_places((mixture){1, 4, 2});
    check_places((mixture){37, 8, 2});
    check_places((mixture){9, 300, 4});
}

FX_TEST(test_rows_are_gathered_in_all_forms)
{
    enum { N_ROW = 4, N_PLACE = 7, N = 64 };
    static const int32_t row[N_PLACE] = {3, 0, 0, 2, 1, 3, 2};
    float *x = random_floats(N_ROW * N, EVEN, 1), *want = floats(N_PLACE * N);
    fxi_cuda_act from = act_new(N_ROW, N);
    fxi_cuda_rows_args form = {.x = x, .count = {N_ROW, NULL}, .n = N, .out = from};
    launch(FXI_CUDA_ROWS, &form);
    fxi_cuda_gather_args a = {.from = from,
                              .to = act_new(N_PLACE, N),
                              .place_row = row,
                              .count = {N_PLACE, NULL},
                              .n = N};
    launch(FXI_CUDA_GATHER, &a);
    for (int p = 0; p < N_PLACE; p++) memcpy(want + p * N, x + row[p] * N, N * sizeof *x);
    assert_act("gather", &a.to, want, N_PLACE * N);
    act_release(&from);
    act_release(&a.to);
    guarded_free_all(x, want);
}

// ---- the sum -----------------------------------------------------------------------------------

enum { ROWS = 3, EXPERTS = 5, USED = 2, DIM = 70 };

typedef struct sum_data {
    int32_t chosen[ROWS * USED], place[ROWS * USED];
    float *ex, *bias, *share, *shared, *shared_bias, *gate;
} sum_data;

static sum_data sum_new(void)
{
    return (sum_data){.chosen = {4, 0, 1, 3, 0, 4},
                      .place = {4, 0, 2, 3, 1, 5},
                      .ex = random_floats(ROWS * USED * DIM, EVEN, 1),
                      .bias = random_floats(EXPERTS * DIM, EVEN, 2),
                      .share = random_floats(ROWS * USED, EVEN, 3),
                      .shared = random_floats(ROWS * DIM, EVEN, 4),
                      .shared_bias = random_floats(DIM, EVEN, 5),
                      .gate = random_floats(ROWS, EVEN, 6)};
}

static void host_sum(const sum_data *d, int row, bool has_bias, bool has_shared, float *y)
{
    const fxi_kernels *k = ref_path();
    float one[DIM];
    for (int c = row * USED; c < (row + 1) * USED; c++) {
        memcpy(one, d->ex + d->place[c] * DIM, sizeof one);
        if (has_bias) k->add(one, d->bias + d->chosen[c] * DIM, DIM);
        k->add_scaled(y, one, d->share[c], DIM);
    }
    if (!has_shared) return;
    memcpy(one, d->shared + row * DIM, sizeof one);
    k->add(one, d->shared_bias, DIM);
    k->add_scaled(y, one, fxi_sigmoid(d->gate[row]), DIM);
}

static void check_sum(bool has_bias, bool has_shared)
{
    sum_data d = sum_new();
    float *want = floats(ROWS * DIM);
    fxi_cuda_combine_args a = {.ex = d.ex,
                               .bias = has_bias ? d.bias : NULL,
                               .chosen = d.chosen,
                               .place = d.place,
                               .share = d.share,
                               .shared = has_shared ? d.shared : NULL,
                               .shared_bias = d.shared_bias,
                               .shared_gate = d.gate,
                               .count = {ROWS, NULL},
                               .dim = DIM,
                               .n_used = USED,
                               .y = floats(ROWS * DIM)};
    launch(FXI_CUDA_COMBINE, &a);
    for (int row = 0; row < ROWS; row++) host_sum(&d, row, has_bias, has_shared, want + row * DIM);
    assert_same("combine", a.y, want, ROWS * DIM);
    guarded_free_all(d.ex, d.bias, d.share, d.shared, d.shared_bias, d.gate, want, a.y);
}

FX_TEST(test_results_are_summed_in_the_order_of_choice)
{
    for (int bits = 0; bits < 4; bits++) check_sum(bits & 1, bits & 2);
}

FX_RUN_GROUP(test_cuda_experts, open_kernels, NULL)
