// test_tight_memory.c - for every manager: a request whose memory just fits says what it says where
// there is plenty. Beams go on together; choices that do not fit together, with a manager that
// cannot share a prompt, are computed one after another.
#include "unit/cmocka_all.h"

#include "lab/kv_reserve.h"
#include "unit/engine/support/bits.h"
#include "unit/engine/support/unthreaded.h"

#include <string.h>

#define MODEL FX_SOURCE_DIR "/tests/vectors/logits/tiny-f32.gguf"

enum { N_PROMPT = 60, N_GEN = 64, N_CHOICE = 5, WIDTH = 3, PAGE = 4096, PLENTY = 8 << 20 };

static bits_answer want, got;
static int32_t prompt[N_PROMPT];

static fx_engine *open_managed(const char *manager, uint64_t kv_bytes)
{
    return unthreaded_open_single(MODEL, (fx_options){.n_thread = 1,
                                                      .ctx_tok = 256,
                                                      .kv_manager = manager,
                                                      .kv_ops = fxi_kv_reserve_find(manager),
                                                      .kv_memory_bytes = kv_bytes,
                                                      .max_seq = 8});
}

// An engine of whose memory sequences can have this much, or a little more.
static fx_engine *open_tight(const char *manager, uint64_t bytes)
{
    uint64_t kv_bytes = bytes;
    fx_engine *eng = open_managed(manager, kv_bytes);
    while (eng->service.budget_bytes < bytes) {
        unthreaded_close(eng);
        eng = open_managed(manager, kv_bytes += PAGE);
    }
    return eng;
}

static fx_request request_of(int expect_tok, bits_answer *out)
{
    fx_request r = bits_request(prompt, N_PROMPT, N_GEN, out);
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = 3 + (i * i * 7 + i * 13) % 310;
    r.expect_tok = expect_tok;
    return r;
}

static fx_request choices_of(int expect_tok, bits_answer *out)
{
    fx_request r = request_of(expect_tok, out);
    r.sampling = (fx_sampling){.temperature = 1, .top_p = 1, .seed = 7};
    r.n_choice = N_CHOICE;
    return r;
}

static fx_request beams_of(int expect_tok, bits_answer *out)
{
    fx_request r = request_of(expect_tok, out);
    r.beam_width = WIDTH;
    r.n_choice = WIDTH;
    return r;
}

static void check_end(fx_engine *eng)
{
    char text[128];
    const char *what = "";
    if (!bits_same_answer(&got, &want, text)) fail_msg("%s: %s", eng->kv->ops->name, text);
    if (fxi_kv_check(eng->kv, &what) != FX_OK) fail_msg("%s", what);
}

typedef fx_request make_request(int expect_tok, bits_answer *out);

// What the request needs of this manager, and at *want what it says.
static uint64_t ask_with_plenty(const char *manager, make_request *make, int expect_tok)
{
    fx_engine *eng = open_managed(manager, PLENTY);
    const fx_request r = make(expect_tok, &want);
    const uint64_t bytes = fxi_request_bytes(&eng->service, &r, N_GEN);
    bits_ask(eng, &r, &want);
    unthreaded_close(eng);
    return bytes;
}

static void check_every_manager(make_request *make)
{
    for (int i = 0; fxi_lab_manager_name(i); i++)
        for (int expect_tok = 0; expect_tok <= N_GEN; expect_tok += N_GEN / 2) {
            const char *manager = fxi_lab_manager_name(i);
            fx_engine *eng = open_tight(manager, ask_with_plenty(manager, make, expect_tok));
            const fx_request r = make(expect_tok, &got);
            bits_ask(eng, &r, &got);
            check_end(eng);
            unthreaded_close(eng);
        }
}

FX_TEST(test_beams_fit_what_they_cost)
{
    check_every_manager(beams_of);
}

FX_TEST(test_choices_fit_what_they_cost)
{
    check_every_manager(choices_of);
}

static int n_caches(const fxi_live_request *g)
{
    int n = 0;
    for (int i = 0; i < g->n_seq; i++) n += g->seq[i].kv != NULL;
    return n;
}

// Without forks, as many at a time as there is memory for; the others follow, beside another
// request that came later.
FX_TEST(test_choices_take_turns)
{
    static bits_answer other;
    for (int i = 0; fxi_lab_manager_name(i); i++) {
        const uint64_t bytes = ask_with_plenty(fxi_lab_manager_name(i), choices_of, N_GEN);
        for (int n = 1; n <= 2; n++) {
            fx_engine *eng = open_tight(fxi_lab_manager_name(i), (uint64_t)n * bytes);
            const fx_request r = choices_of(N_GEN, &got), late = request_of(N_GEN, &other);
            const int at_once = fxi_request_at_once(&eng->service, &r, N_GEN);
            int most = 0;
            if (fxi_kv_can(eng->kv, FXI_KV_FORK))
                assert_int_equal(at_once, N_CHOICE);
            else
                assert_in_range(at_once, n, N_CHOICE - 1);
            const uint64_t id = bits_submit(eng, &r);
            (void)bits_submit(eng, &late);
            while (!got.last) {
                const fxi_live_request *g = bits_live_request(eng, id);
                if (g && n_caches(g) > most) most = n_caches(g);
                (void)fxi_iteration_run(eng);
            }
            assert_int_equal(most, at_once);
            check_end(eng);
            bits_finish(eng, &other);
            assert_int_equal(other.choice[0].n_tok, N_GEN);
            unthreaded_close(eng);
        }
    }
}

FX_RUN(test_tight_memory)
