// ops.c - what each operation costs by slice size, and how fast memory can be allocated.
//
// Every run of an operation (but the first one's) starts with an empty manager whose spans exist
// already; runs are fewer if each allocates much memory. Sequences are N_CHUNK chunks long. Calls
// are calls of the backend: on the host an unmap or the map of an alias is one system call, a
// writable map two, a destroy one per view, a create one per view and MiB.
#include <stdlib.h>
#include <sys/mman.h>

#include "bench_vtensor.h"

enum { N_CHUNK = 2, MAX_HELD = 32 };

#define RUN_BYTES ((size_t)1 << 30) // allocated by all runs of an operation, about

typedef struct ops {
    world w;
    meter mt;
    uint32_t len_tok; // N_CHUNK chunks
    uint32_t *tok;    // [len_tok]
    vt_seq *held[MAX_HELD];
    uint32_t n_held;
} ops;

static vt_seq *hold_seq(ops *o, vt_seq *s)
{
    return o->held[o->n_held++] = s;
}

static void release_held(ops *o)
{
    while (o->n_held > 0) vt_seq_release(o->held[--o->n_held]);
}

// Times a call.
#define METERED(o, call)       \
    do {                       \
        meter_start(&(o)->mt); \
        call;                  \
        meter_stop(&(o)->mt);  \
    } while (0)

static vt_seq *timed_create(ops *o, uint32_t expect_tok)
{
    vt_seq *s;
    METERED(o, must(vt_seq_create(o->w.m, expect_tok, &s), "create"));
    return s;
}

// ---- create

static void create_cold(ops *o)
{
    hold_seq(o, timed_create(o, 0)); // kept alive until the last run, so that each creates a span
}

static void create_reused(ops *o)
{
    vt_seq_release(timed_create(o, 0));
}

static void create_warm(ops *o)
{
    vt_seq_release(seq_new(&o->w, o->len_tok));
    world_settle(&o->w);
    vt_seq_release(timed_create(o, o->len_tok));
}

static void create_unwiped(ops *o)
{
    vt_seq_release(seq_new(&o->w, o->len_tok));
    vt_seq_release(timed_create(o, o->len_tok));
}

// ---- extend

static void extend_cold(ops *o)
{
    vt_seq *s = hold_seq(o, seq_new(&o->w, o->w.chunk_tok));
    METERED(o, must(vt_seq_extend(s, o->len_tok), "extend"));
}

static void extend_prepared(ops *o)
{
    vt_seq *s = hold_seq(o, seq_new(&o->w, o->w.chunk_tok));
    must(vt_seq_prepare(s, o->len_tok, 1), "prepare");
    must(vt_seq_wait(s), "wait");
    METERED(o, must(vt_seq_extend(s, o->len_tok), "extend"));
}

static void extend_spare(ops *o)
{
    vt_seq_release(seq_new(&o->w, o->len_tok));
    world_settle(&o->w);
    vt_seq *s;
    must(vt_seq_create(o->w.m, o->len_tok, &s), "create");
    METERED(o, must(vt_seq_extend(hold_seq(o, s), o->len_tok), "extend"));
}

static void extend_inside(ops *o)
{
    vt_seq *s = hold_seq(o, seq_new(&o->w, o->len_tok - 1));
    METERED(o, must(vt_seq_extend(s, o->len_tok), "extend"));
}

static void extend_forked(ops *o)
{
    vt_seq *child, *s = hold_seq(o, seq_new(&o->w, o->len_tok - 1));
    must(vt_seq_fork(s, o->len_tok - 1, &child), "fork");
    METERED(o, must(vt_seq_extend(hold_seq(o, child), o->len_tok), "extend"));
}

// ---- share

static void fork_all(ops *o)
{
    vt_seq *child, *s = hold_seq(o, seq_new(&o->w, o->len_tok));
    METERED(o, must(vt_seq_fork(s, o->len_tok, &child), "fork"));
    hold_seq(o, child);
}

static void record_all(ops *o)
{
    vt_seq *s = hold_seq(o, seq_new(&o->w, o->len_tok));
    METERED(o, must(vt_seq_record(s, o->w.d, o->tok, o->len_tok, NULL), "record"));
}

static void match_recorded(ops *o, uint32_t n_tok)
{
    vt_seq *again, *s = seq_new(&o->w, o->len_tok);
    uint32_t n_hit;
    must(vt_seq_record(s, o->w.d, o->tok, o->len_tok, NULL), "record");
    vt_seq_release(s);
    world_settle(&o->w);
    METERED(o, must(vt_seq_match(o->w.d, o->tok, n_tok, 0, &again, &n_hit), "match"));
    hold_seq(o, again);
}

static void match_whole(ops *o)
{
    match_recorded(o, o->len_tok);
}

static void match_part(ops *o)
{
    match_recorded(o, o->len_tok - o->w.chunk_tok / 2 - 1);
}

// ---- shrink

static void truncate_chunk(ops *o)
{
    vt_seq *s = hold_seq(o, seq_new(&o->w, o->len_tok));
    METERED(o, must(vt_seq_truncate(s, o->w.chunk_tok), "truncate"));
}

static void release_own(ops *o)
{
    vt_seq *s = seq_new(&o->w, o->len_tok);
    METERED(o, vt_seq_release(s));
}

static void release_shared(ops *o)
{
    vt_seq *child, *s = hold_seq(o, seq_new(&o->w, o->len_tok));
    must(vt_seq_fork(s, o->len_tok, &child), "fork");
    METERED(o, vt_seq_release(child));
}

static void swap_whole(vt_seq *s, vt_status (*swap)(vt_seq *s), const char *what)
{
    vt_status st = swap(s);
    must(st == VT_BUSY ? vt_seq_wait(s) : st, what);
}

static void time_swap_out(ops *o)
{
    vt_seq *s = hold_seq(o, seq_new(&o->w, o->len_tok));
    METERED(o, swap_whole(s, vt_seq_swap_out, "swap out"));
}

// What of it the caller's thread does: the rows move on another one.
static void time_swap_out_begin(ops *o)
{
    vt_seq *s = hold_seq(o, seq_new(&o->w, o->len_tok));
    vt_status st;
    METERED(o, st = vt_seq_swap_out(s));
    if (st != VT_BUSY) must(st, "swap out");
    must(vt_seq_wait(s), "swap out");
}

static void time_swap_in(ops *o)
{
    vt_seq *s = hold_seq(o, seq_new(&o->w, o->len_tok));
    swap_whole(s, vt_seq_swap_out, "swap out");
    METERED(o, swap_whole(s, vt_seq_swap_in, "swap in"));
}

static void trim_all(ops *o)
{
    vt_seq_release(seq_new(&o->w, o->len_tok));
    METERED(o, must(vt_trim(o->w.m, 0, NULL), "trim"));
}

static void step_idle(ops *o)
{
    hold_seq(o, seq_new(&o->w, o->len_tok));
    world_settle(&o->w);
    METERED(o, must(vt_step(o->w.m, VT_AHEAD_NONE, 0, 0), "step"));
}

static const struct {
    const char *name;
    void (*run)(ops *);
} op_list[] = {
    {"create, addresses reserved", create_cold},
    {"create, span reused", create_reused},
    {"create, span warm and wiped", create_warm},
    {"create, 2 warm chunks to wipe", create_unwiped},
    {"extend by a chunk, cold", extend_cold},
    {"extend by a chunk, prepared", extend_prepared},
    {"extend by 2 chunks, spare", extend_spare},
    {"extend inside a chunk", extend_inside},
    {"extend after a fork", extend_forked},
    {"fork 2 chunks", fork_all},
    {"record 2 chunks", record_all},
    {"match 2 chunks", match_whole},
    {"match 1 chunk and a part (copy)", match_part},
    {"truncate a chunk", truncate_chunk},
    {"release 2 chunks", release_own},
    {"release 2 shared chunks", release_shared},
    {"swap_out 2 chunks", time_swap_out},
    {"swap_out 2 chunks, begin", time_swap_out_begin},
    {"swap_in 2 chunks", time_swap_in},
    {"trim 2 chunks", trim_all},
    {"step, nothing to do", step_idle},
};

static void op_measure(bench *b, ops *o, size_t i)
{
    const size_t chunk = o->w.slice_bytes * o->w.n_view, fit = RUN_BYTES / (N_CHUNK * chunk);
    uint32_t n = fit < b->n_repeat ? (uint32_t)fit : b->n_repeat;
    n = n < 3 ? 3 : n < MAX_HELD ? n : MAX_HELD - 1;
    for (uint32_t r = 0; r < n; r++) {
        op_list[i].run(o);
        if (i == 0) continue;
        release_held(o);
        vt_domain_forget(o->w.d);
        world_empty(&o->w);
    }
    release_held(o);
    world_empty(&o->w);
    row_meter(b, &o->mt, op_list[i].name);
}

static void ops_of_slice(bench *b, size_t slice_bytes)
{
    ops *o = need(calloc(1, sizeof *o));
    uint64_t swap_bytes = (uint64_t)4 * slice_bytes * b->n_plane;
    world_size size = {
        .slice_bytes = slice_bytes, .max_seq = MAX_HELD + 2, .swap_bytes = swap_bytes};
    if (world_open(&o->w, b, size)) {
        o->mt.w = &o->w;
        o->len_tok = N_CHUNK * o->w.chunk_tok;
        o->tok = random_tokens(1, o->len_tok);
        for (size_t i = 0; i < sizeof op_list / sizeof op_list[0]; i++) op_measure(b, o, i);
        world_close(&o->w);
        free(o->tok);
    }
    free(o);
}

static void for_slices(bench *b, void (*measure)(bench *, size_t))
{
    static const size_t kib[] = {16, 32, 64, 128, 256, 512, 1024, 2048};
    size_t stride = b->layout == VT_LAYOUT_SPLIT ? b->row_bytes : b->n_plane * b->row_bytes;
    size_t n = sizeof kib / sizeof kib[0];
    if (b->slice_bytes > 0) {
        measure(b, b->slice_bytes);
        return;
    }
    for (size_t i = 0; i < (b->quick && !b->gpu ? 2 : n); i++)
        if (kib[i] * 1024 >= 2 * stride) measure(b, kib[i] * 1024);
}

void bench_ops(bench *b)
{
    section(&b->out, "ops", "each operation, by bytes of a chunk in each plane");
    for_slices(b, ops_of_slice);
}

// ---- allocation bandwidth

typedef struct alloc_run {
    world w;
    vt_seq *s;
    uint32_t n_chunk;
} alloc_run;

static void owner_up_to(alloc_run *a, uint32_t len_tok)
{
    must(vt_seq_extend(a->s, len_tok), "extend");
}

// Polls instead of waiting: a waiting owner would run a job that has not begun itself.
static void mapper_up_to(alloc_run *a, uint32_t len_tok)
{
    const double most_ns = 60e9;
    must(vt_seq_prepare(a->s, len_tok, 1), "prepare");
    for (double start = now_ns(); vt_seq_backed(a->s) < len_tok; vt_work(a->w.m, 0, NULL))
        if (now_ns() - start > most_ns) must(VT_EDEVICE, "wait for the mapper");
    must(vt_seq_extend(a->s, len_tok), "extend");
}

static const struct {
    const char *name;
    void (*up_to)(alloc_run *a, uint32_t len_tok);
    bool by_chunk;
} alloc_list[] = {
    {"owner, chunk by chunk", owner_up_to, true},
    {"owner, at once", owner_up_to, false},
    {"mapper, chunk by chunk", mapper_up_to, true},
    {"mapper, at once", mapper_up_to, false},
};

enum { N_ALLOC = sizeof alloc_list / sizeof alloc_list[0] };

static double alloc_time(alloc_run *a, int i)
{
    must(vt_seq_create(a->w.m, 0, &a->s), "create");
    double start = now_ns();
    for (uint32_t n = alloc_list[i].by_chunk ? 1 : a->n_chunk; n <= a->n_chunk; n++)
        alloc_list[i].up_to(a, n * a->w.chunk_tok);
    double ns = now_ns() - start;
    vt_seq_release(a->s);
    world_empty(&a->w);
    return ns;
}

// The time that the system needs for unmanaged memory.
static double anonymous_time(size_t size_bytes)
{
    double start = now_ns();
    void *p = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    double ns = now_ns() - start;
    if (p == MAP_FAILED) must(VT_NOSPACE, "mmap");
    munmap(p, size_bytes);
    return ns;
}

static void bandwidth_row(bench *b, const world *w, const char *name, samples *ns, double n_byte)
{
    slice_row(b, w->slice_bytes, "%s", name);
    row_cell(&b->out, "bandwidth", n_byte / samples_at(ns, 0.5), "GB/s");
    row_end(&b->out);
    samples_free(ns);
}

static void alloc_of_slice(bench *b, size_t slice_bytes)
{
    alloc_run a = {0};
    samples ns[N_ALLOC + 1] = {0};
    size_t want = (size_t)(b->quick ? 4 : 256) << 20;
    if (!world_open(&a.w, b, (world_size){.slice_bytes = slice_bytes, .max_tok = 1 << 16})) return;
    size_t chunk = a.w.n_view * a.w.slice_bytes;
    a.n_chunk = want > chunk ? (uint32_t)(want / chunk) : 1;
    for (uint32_t r = 0; r < b->n_repeat; r++) {
        for (int i = 0; i < N_ALLOC; i++) samples_add(&ns[i], alloc_time(&a, i));
        if (!b->gpu) samples_add(&ns[N_ALLOC], anonymous_time(a.n_chunk * chunk));
    }
    double n_byte = (double)a.n_chunk * (double)chunk;
    for (int i = 0; i < N_ALLOC; i++) bandwidth_row(b, &a.w, alloc_list[i].name, &ns[i], n_byte);
    if (!b->gpu) bandwidth_row(b, &a.w, "anonymous mmap, populated", &ns[N_ALLOC], n_byte);
    world_close(&a.w);
}

void bench_alloc(bench *b)
{
    section(&b->out, "alloc", "memory made and mapped");
    for_slices(b, alloc_of_slice);
}
