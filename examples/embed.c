// embed.c - a toy inference engine on libvtensor: an example of how to embed it in a real one.
//
// The model has two layers. Row t of a layer's K plane says which token is at position t, the row
// of its V plane says the position. The attention kernel gets a pointer, a stride and a length, and
// no blocks. It reads and sums every row; the sum depends on each token and its place, so one wrong
// row is found at once, whatever memory is shared.
//
// Prints what each step costs. README.md in this folder says how to build it.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <vtensor/vtensor.h>

enum { N_LAYER = 2, N_DIM = 64, MAX_TOK = 1024, N_PROMPT = 300, N_COMMON = 250, N_FORK = 3 };

typedef struct chat {
    vt_seq *kv;
    uint32_t tok[MAX_TOK];
} chat;

static void must_succeed(vt_status st, const char *what)
{
    if (st == VT_OK) return;
    fprintf(stderr, "embed: %s: %s\n", what, vt_status_name(st));
    exit(1);
}

static float *row_of(const chat *c, uint32_t plane, uint32_t t)
{
    return (float *)((char *)vt_seq_plane(c->kv, plane) + t * vt_seq_stride(c->kv));
}

// The model's pass over tokens [from, to): writes a K and a V row for each in every layer.
static void forward(const chat *c, uint32_t from, uint32_t to)
{
    for (uint32_t layer = 0; layer < N_LAYER; layer++)
        for (uint32_t t = from; t < to; t++)
            for (uint32_t i = 0; i < N_DIM; i++) {
                row_of(c, 2 * layer, t)[i] = (float)c->tok[t];
                row_of(c, 2 * layer + 1, t)[i] = (float)(t + layer + i);
            }
}

// The kernel: all it needs of the cache is its address and the stride between rows.
static double attend(const char *k, const char *v, size_t stride, uint32_t n_tok)
{
    double sum = 0;
    for (uint32_t t = 0; t < n_tok; t++)
        for (uint32_t i = 0; i < N_DIM; i++)
            sum += (double)((const float *)(k + t * stride))[i] *
                   (double)((const float *)(v + t * stride))[i];
    return sum;
}

static void verify_rows(const chat *c)
{
    for (uint32_t layer = 0; layer < N_LAYER; layer++) {
        double expected = 0;
        for (uint32_t t = 0; t < vt_seq_len(c->kv); t++)
            expected += (double)c->tok[t] * (N_DIM * (t + layer) + N_DIM * (N_DIM - 1) / 2.0);
        if (attend(vt_seq_plane(c->kv, 2 * layer), vt_seq_plane(c->kv, 2 * layer + 1),
                   vt_seq_stride(c->kv), vt_seq_len(c->kv)) == expected)
            continue;
        fprintf(stderr, "embed: layer %" PRIu32 " reads rows that nobody wrote\n", layer);
        exit(1);
    }
}

static void grow_to(chat *c, uint32_t n_tok)
{
    uint32_t from = vt_seq_len(c->kv);
    must_succeed(vt_seq_extend(c->kv, n_tok), "extend");
    forward(c, from, n_tok);
    verify_rows(c);
}

static void say_token(chat *c, uint32_t tok)
{
    uint32_t n_tok = vt_seq_len(c->kv);
    c->tok[n_tok] = tok;
    grow_to(c, n_tok + 1);
}

static void show_step(const vt_manager *m, const char *step)
{
    static uint64_t kib_before;
    vt_stats s;
    vt_get_stats(m, &s);
    uint64_t kib = s.mapped_bytes / 1024;
    printf("%-42s %+6" PRId64 " %6" PRIu64 " %6" PRIu64 " %6" PRIu64 " %6" PRIu64 "\n", step,
           (int64_t)(kib - kib_before), kib, s.live_bytes / 1024,
           s.chunks_shared * s.chunk_bytes / 1024, s.chunks_cached * s.chunk_bytes / 1024);
    kib_before = kib;
}

static vt_manager *make_manager(void)
{
    vt_manager *m;
    vt_config cfg = vt_config_default();
    cfg.n_plane = 2 * N_LAYER; // a K and a V for each layer
    cfg.row_bytes = N_DIM * sizeof(float);
    cfg.max_tok = MAX_TOK;
    cfg.max_seq = 8;
    cfg.budget_bytes = 64 << 20;
    must_succeed(vt_manager_create(&cfg, &m), "create the manager");
    return m;
}

int main(void)
{
    static chat first, fork[N_FORK], other;
    vt_domain *d;
    uint32_t n_hit;
    vt_manager *m = make_manager();
    must_succeed(vt_domain_open(m, "toy", 3, &d), "open the domain");
    printf("%-42s %6s %6s %6s %6s %6s   (KiB)\n", "step", "cost", "mapped", "tokens", "shared",
           "cached");
    show_step(m, "a manager");

    for (uint32_t t = 0; t < N_PROMPT; t++) first.tok[t] = 1000 + 7 * t % 101;
    must_succeed(vt_seq_create(m, N_PROMPT, &first.kv), "create");
    grow_to(&first, N_PROMPT);
    show_step(m, "create, and extend by a prompt of 300");
    must_succeed(vt_seq_record(first.kv, d, first.tok, N_PROMPT, NULL), "record");
    show_step(m, "record it for others");

    for (int i = 0; i < N_FORK; i++) {
        fork[i] = first;
        must_succeed(vt_seq_fork(first.kv, N_PROMPT, &fork[i].kv), "fork");
        verify_rows(&fork[i]);
    }
    show_step(m, "three forks of it: each copies the tail");
    for (int i = 0; i < N_FORK; i++) say_token(&fork[i], 2000 + (uint32_t)i);
    show_step(m, "each goes its own way");

    for (uint32_t t = 0; t < N_PROMPT; t++) other.tok[t] = first.tok[t] + (t >= N_COMMON);
    must_succeed(vt_seq_match(d, other.tok, N_PROMPT, 0, &other.kv, &n_hit), "match");
    verify_rows(&other); // the rows of tokens 0 .. n_hit-1 are there
    grow_to(&other, N_PROMPT);
    show_step(m, "match a prompt whose first 250 are the same");
    if (n_hit != N_COMMON) return fprintf(stderr, "embed: %" PRIu32 " matched\n", n_hit), 1;

    for (int i = 0; i < N_FORK; i++) verify_rows(&fork[i]), vt_seq_release(fork[i].kv);
    vt_seq_release(other.kv);
    verify_rows(&first);
    vt_seq_release(first.kv);
    must_succeed(vt_trim(m, UINT64_MAX, NULL), "trim"); // once the mapper has done its work
    show_step(m, "all released: the prompt stays, for a while");
    must_succeed(vt_trim(m, 0, NULL), "trim");
    must_succeed(vt_evict(m, UINT64_MAX, NULL), "evict");
    show_step(m, "trim and evict");
    must_succeed(vt_check(m, NULL), "check");
    vt_domain_close(d);
    vt_manager_destroy(m);
    return 0;
}
