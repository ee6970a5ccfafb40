// test_vt_books.c - what a manager keeps beside the memory itself: its heap, counted as it is
// allocated, stays within the bounds that docs/embed/libvtensor.md states, whatever the context;
// and the names of chunks do not run out before the budget does.
#include "assert_vt.h"
#include "suite.h"

#include <malloc.h>
#include <stdlib.h>

#include "vtensor/vtensor.h"

enum { ROW_BYTES = 128, CHUNK_TOK = 32, CHUNK_BYTES = ROW_BYTES * CHUNK_TOK };
enum { BYTES_PER_CHUNK = 32, BYTES_PER_TOKEN = 16, BYTES_BESIDE = 64 << 10 };

// ---- The heap. The linker sends all calls here.

static size_t heap_bytes;

void *__real_malloc(size_t size_bytes);
void *__real_calloc(size_t n, size_t size_bytes);
void *__real_realloc(void *p, size_t size_bytes);
void __real_free(void *p);
void *__wrap_malloc(size_t size_bytes);
void *__wrap_calloc(size_t n, size_t size_bytes);
void *__wrap_realloc(void *p, size_t size_bytes);
void __wrap_free(void *p);

static void *heap_add(void *p)
{
    heap_bytes += malloc_usable_size(p);
    return p;
}

void *__wrap_malloc(size_t size_bytes)
{
    return heap_add(__real_malloc(size_bytes));
}

void *__wrap_calloc(size_t n, size_t size_bytes)
{
    return heap_add(__real_calloc(n, size_bytes));
}

void *__wrap_realloc(void *p, size_t size_bytes)
{
    heap_bytes -= malloc_usable_size(p);
    return heap_add(__real_realloc(p, size_bytes));
}

void __wrap_free(void *p)
{
    heap_bytes -= malloc_usable_size(p);
    __real_free(p);
}

// ---- A manager of one plane

static vt_manager *m;
static vt_domain *d;
static size_t heap_at_start;

static void open_manager(uint32_t max_tok, uint64_t budget_bytes)
{
    vt_config cfg = vt_config_default();
    cfg.n_plane = 1;
    cfg.row_bytes = ROW_BYTES;
    cfg.max_tok = max_tok;
    cfg.max_seq = 16;
    cfg.budget_bytes = budget_bytes;
    cfg.mapper = VT_MAPPER_OWNER;
    assert_ok(vt_manager_create(&cfg, &m));
    assert_ok(vt_domain_open(m, "d", 1, &d));
    heap_at_start = heap_bytes;
}

static void close_manager(void)
{
    vt_manager_destroy(m);
}

static vt_stats stats(void)
{
    vt_stats st;
    vt_get_stats(m, &st);
    return st;
}

static void expect_heap(uint64_t n_chunk, uint64_t n_tok)
{
    uint64_t most = n_chunk * BYTES_PER_CHUNK + n_tok * BYTES_PER_TOKEN + BYTES_BESIDE;
    uint64_t used = heap_bytes - heap_at_start;
    if (used > most)
        fail_msg("%llu bytes of heap for %llu chunks and %llu recorded tokens",
                 (unsigned long long)used, (unsigned long long)n_chunk, (unsigned long long)n_tok);
}

// A prompt of one chunk like no other, computed and recorded.
static void serve_prompt(uint32_t number)
{
    uint32_t tok[CHUNK_TOK] = {number}, n_hit;
    vt_seq *s;
    assert_ok(vt_seq_match(d, tok, CHUNK_TOK, CHUNK_TOK, &s, &n_hit));
    assert_int_equal(n_hit, 0);
    assert_ok(vt_seq_extend(s, CHUNK_TOK));
    assert_ok(vt_seq_record(s, d, tok, CHUNK_TOK, NULL));
    vt_seq_release(s);
    if (number % 16 == 0) assert_ok(vt_step(m, VT_AHEAD_NONE, 0, number));
}

static const uint32_t contexts[] = {4096, 131072, 1048576};
enum { N_CONTEXT = sizeof contexts / sizeof contexts[0] };

FX_TEST(test_recorded_prompts_cost_little)
{
    enum { N = 6000 };
    for (int i = 0; i < N_CONTEXT; i++) {
        open_manager(contexts[i], (uint64_t)2 * N * CHUNK_BYTES);
        for (uint32_t k = 1; k <= N; k++) serve_prompt(k);
        assert_int_equal(stats().prefix_tok, N * CHUNK_TOK);
        expect_heap(stats().chunks_created, N * CHUNK_TOK);
        close_manager();
    }
}

FX_TEST(test_live_sequences_cost_little)
{
    for (int i = 0; i < N_CONTEXT; i++) {
        const uint32_t len_tok = contexts[i] < 262144 ? contexts[i] : 262144, step_tok = 1024;
        vt_seq *s[4];
        open_manager(contexts[i], (uint64_t)8 * len_tok * ROW_BYTES);
        for (int k = 0; k < 4; k++) assert_ok(vt_seq_create(m, 0, &s[k]));
        for (uint32_t n = step_tok; n <= len_tok; n += step_tok) // beside each other
            for (int k = 0; k < 4; k++) assert_ok(vt_seq_extend(s[k], n));
        expect_heap(stats().chunks_created, 0);
        assert_int_equal(stats().mappings, 4); // and neighbours they stay
        close_manager();
    }
}

// A short sequence costs the same, however long it could get.
FX_TEST(test_the_context_costs_nothing)
{
    size_t used[N_CONTEXT];
    for (int i = 0; i < N_CONTEXT; i++) {
        vt_seq *s[16];
        open_manager(contexts[i], (uint64_t)1 << 24);
        for (int k = 0; k < 16; k++) {
            assert_ok(vt_seq_create(m, 0, &s[k]));
            assert_ok(vt_seq_extend(s[k], CHUNK_TOK));
        }
        used[i] = heap_bytes - heap_at_start;
        close_manager();
    }
    assert_int_equal(used[0], used[1]);
    assert_int_equal(used[0], used[2]);
}

// More prompts than the names of short chunks would once allow: the budget is filled, and then the
// oldest prompts go, one for one.
FX_TEST(test_names_do_not_run_out_before_the_budget)
{
    enum { BUDGET_CHUNKS = 68000, N = 70000 };
    open_manager(1048576, (uint64_t)BUDGET_CHUNKS * CHUNK_BYTES);
    for (uint32_t k = 1; k <= N; k++) serve_prompt(k);
    assert_int_equal(stats().shortages, 0);
    assert_true(stats().mapped_bytes > (uint64_t)(BUDGET_CHUNKS - 64) * CHUNK_BYTES);
    assert_true(stats().prefix_nodes > BUDGET_CHUNKS - 64);
    expect_heap(stats().chunks_created, stats().prefix_tok);
    close_manager();
}

FX_RUN(test_vt_books)
