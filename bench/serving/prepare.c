// prepare.c - step times with and without memory that is prepared ahead (vAttention's figure 9).
//
// 32 sequences decode with lengths one token apart, so that in nearly every step one of them needs
// a new chunk. Without look-ahead, the extend creates and maps that chunk; with it, the mapper
// thread does so beside the forward pass of an earlier step. Both run in turn in one engine. What a
// step spends on memory is all its extends plus the KV manager's step, which wakes the mapper
// thread; if that thread takes our core, its work is counted here. How prompts share steps does not
// depend on time here, so that both ways grow through the same lengths.
#include "bench_serving.h"

enum { N_SEQ = 32, WARM_UP = 4 };

#define SLOW_NS 20e3 // an extend that took longer had to create its memory

// Results of one way: times of all repeats; and p50, p99 and max of each repeat.
typedef struct growth {
    const char *name;
    int ahead_tok;
    samples every, into;    // ns of extends; of those into a new chunk
    samples kvstep, memory; // ns of steps: the KV manager's step; with all extends
    samples step_p50, step_p99, step_max, out_p50, out_p99, out_max; // us, one of each repeat
} growth;

static void grow_steps(const bench *b, world *w, growth *o)
{
    samples step = {0}, outside = {0};
    for (int i = 0; i < b->size.n_grow_step; i++) {
        world_turn(w);
        const turn *t = &w->now;
        samples_add(&step, t->ns / 1e3);
        samples_add(&outside, (t->ns - t->forward_ns) / 1e3);
        samples_add(&o->kvstep, t->kvstep_ns);
        samples_add(&o->memory, t->kvstep_ns + t->extend_ns);
    }
    samples_add(&o->step_p50, samples_at(&step, 0.5));
    samples_add(&o->step_p99, samples_at(&step, 0.99));
    samples_add(&o->step_max, samples_at(&step, 1));
    samples_add(&o->out_p50, samples_at(&outside, 0.5));
    samples_add(&o->out_p99, samples_at(&outside, 0.99));
    samples_add(&o->out_max, samples_at(&outside, 1));
    samples_free(&step), samples_free(&outside);
}

static void grow_all(const bench *b, world *w, growth *o)
{
    client c[N_SEQ] = {{0}};
    int32_t *prompt = random_tokens(w, 1, N_SEQ);
    world_empty(w);
    w->eng->hooks.ahead_tok = o->ahead_tok;
    for (int i = 0; i < N_SEQ; i++) {
        fx_request req = plain_request(prompt, (size_t)i + 1, 2 * N_SEQ + b->size.n_grow_step);
        req.no_cache = true;
        client_submit(&c[i], w, &req);
    }
    do world_turn(w);
    while (w->now.n_tok != N_SEQ || w->now.n_seq != N_SEQ);
    for (int i = 0; i < WARM_UP; i++) world_turn(w);
    w->every = &o->every;
    w->into = &o->into;
    grow_steps(b, w, o);
    w->every = w->into = NULL;
    clients_cancel(c, N_SEQ);
    free(prompt);
}

static int n_slow(const samples *s)
{
    int n = 0;
    for (size_t i = 0; i < s->n; i++) n += s->v[i] > SLOW_NS;
    return n;
}

static void step_rows(bench *b, growth *o)
{
    row_begin(&b->out, "%s, whole step", o->name);
    row_spread(&b->out, "p50", &o->step_p50, "us");
    row_spread(&b->out, "p99", &o->step_p99, "us");
    row_spread(&b->out, "max", &o->step_max, "us");
    row_end(&b->out);
    row_begin(&b->out, "%s, outside the model", o->name);
    row_spread(&b->out, "p50", &o->out_p50, "us");
    row_spread(&b->out, "p99", &o->out_p99, "us");
    row_spread(&b->out, "max", &o->out_max, "us");
    row_end(&b->out);
}

static void times_row(bench *b, const char *name, const char *which, samples *s)
{
    row_begin(&b->out, "%s, %s", name, which);
    row_cell(&b->out, "n", (double)s->n, "calls");
    row_cell(&b->out, "p50", samples_at(s, 0.5) / 1e3, "us");
    row_cell(&b->out, "p99", samples_at(s, 0.99) / 1e3, "us");
    row_cell(&b->out, "max", samples_at(s, 1) / 1e3, "us");
    row_cell(&b->out, "over 20 us", n_slow(s), "calls");
    row_end(&b->out);
}

static void growth_free(growth *o)
{
    samples *all[] = {&o->every,    &o->into,     &o->kvstep,  &o->memory,  &o->step_p50,
                      &o->step_p99, &o->step_max, &o->out_p50, &o->out_p99, &o->out_max};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) samples_free(all[i]);
}

void bench_prepare(bench *b)
{
    world w;
    section(&b->out, "prepare",
            "32 sequences decode and grow, with memory made ready ahead and without");
    world_open(&w, b, (world_size){.ctx_tok = 512, .max_seq = N_SEQ, .step_ms = 1 << 20});
    growth o[] = {{.name = "not ahead"}, {.name = "ahead", .ahead_tok = w.eng->hooks.ahead_tok}};
    for (int r = 0; r < b->size.n_repeat; r++)
        for (int i = 0; i < 2; i++) grow_all(b, &w, &o[i]);
    b->found.ready_p99_ns = samples_at(&o[1].into, 0.99);
    b->found.extend_ratio = b->found.ready_p99_ns / samples_at(&o[0].into, 0.99);
    b->found.spike_ratio = samples_at(&o[1].memory, 0.99) / samples_at(&o[0].memory, 0.99);
    for (int i = 0; i < 2; i++) {
        step_rows(b, &o[i]);
        times_row(b, o[i].name, "every extend", &o[i].every);
        times_row(b, o[i].name, "into a new chunk", &o[i].into);
        times_row(b, o[i].name, "the KV manager's step", &o[i].kvstep);
        times_row(b, o[i].name, "KV memory of a step", &o[i].memory);
        growth_free(&o[i]);
    }
    world_close(&w);
}
