// compute.c - rows, linear layers and the first half of feed-forward blocks, in parallel.
#include "model/host/compute.h"
#include "kernels/attn_range.h"
#include "kernels/linear.h"

#include <stdatomic.h>

#define MAX_PANEL 32 // of a range, in large batches

// ---- ranges of panels --------------------------------------------------------------------------

#define SMALL_TOK 32 // up to this many tokens, reading the weights dominates
#define UNIT      4  // panels that kernels work on together

static int between_units(int n, int least, int most)
{
    n = n / UNIT * UNIT;
    return n < least ? least : n > most ? most : n;
}

void fxi_ranges_init(fxi_panel_ranges *r, const fxi_compute *c, int n_panel, int period, int n_tok,
                     int most)
{
    const int n_thread = fxi_pool_n_thread(c->pool);
    *r = (fxi_panel_ranges){.n_panel = n_panel, .period = period, .n_share = 4 * n_thread};
    atomic_init(&r->next, 0);
    r->least = n_tok <= SMALL_TOK ? UNIT : between_units(n_panel / (4 * n_thread), UNIT, most);
    r->most = n_tok <= SMALL_TOK ? n_panel : r->least;
}

bool fxi_ranges_take(fxi_panel_ranges *r, int *first, int *end)
{
    *first = atomic_load_explicit(&r->next, memory_order_relaxed);
    do {
        const int left = r->n_panel - *first;
        if (left <= 0) return false;
        const int whole = *first / r->period * r->period + r->period;
        *end = *first + between_units(left * 3 / r->n_share, r->least, r->most);
        if (*end > whole) *end = whole;
    } while (!atomic_compare_exchange_weak_explicit(&r->next, first, *end, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

// ---- rows --------------------------------------------------------------------------------------

typedef struct row_job {
    fxi_row_fn *fn;
    void *arg;
    int n_row, rows_per_task;
} row_job;

static void row_task(void *arg, int task)
{
    const row_job *job = arg;
    int end = (task + 1) * job->rows_per_task;
    if (end > job->n_row) end = job->n_row;
    for (int row = task * job->rows_per_task; row < end; row++) job->fn(job->arg, row);
}

void fxi_compute_rows(const fxi_compute *c, int n_row, fxi_row_fn *fn, void *arg)
{
    row_job job = {fn, arg, n_row, 4}; // a row takes microseconds: smaller tasks do not pay
    fxi_pool_run(c->pool, row_task, &job, (n_row + job.rows_per_task - 1) / job.rows_per_task);
}

// ---- linear layers -----------------------------------------------------------------------------

// The activations from row `row` on, of rows of n_in numbers.
static fxi_act act_from(const fxi_act *a, int row, int n_in)
{
    const size_t at = (size_t)row * (size_t)n_in;
    return (fxi_act){a->x + at, a->q + at, a->d + at / FXI_Q8_0_ELEMS, a->sum + at / 16};
}

typedef struct linear_pass {
    const fxi_compute *c;
    const fxi_act *a;
    const fxi_linear_job *job;
    int n_job;
    fxi_panel_ranges ranges; // over all jobs, one after another
} linear_pass;

static int job_panels(const fxi_linear_job *job)
{
    return job->n_tok ? fxi_linear_n_panel(job->w->n_out) : 0;
}

// One task per thread. A range of panels may have those of several jobs.
static void linear_task(void *arg, int task)
{
    linear_pass *p = arg;
    (void)task;
    for (int first, end; fxi_ranges_take(&p->ranges, &first, &end);)
        for (int i = 0, base = 0, n; i < p->n_job && base < end; i++, base += n) {
            const fxi_linear_job *job = &p->job[i];
            n = job_panels(job);
            const int from = first > base ? first - base : 0, to = end < base + n ? end - base : n;
            if (from >= to) continue;
            const fxi_act a = act_from(p->a, job->row0, job->w->n_in);
            p->c->k->linear[job->w->type](job->w, &a, job->n_tok, from, to, job->y,
                                          job->ldy ? job->ldy : (size_t)job->w->n_out);
        }
}

void fxi_compute_linear(const fxi_compute *c, const fxi_act *a, const fxi_linear_job *job,
                        int n_job)
{
    linear_pass p = {.c = c, .a = a, .job = job, .n_job = n_job};
    int n_tok = 0, n_panel = 0;
    for (int i = 0; i < n_job; i++) {
        n_panel += job_panels(&job[i]);
        if (job[i].n_tok > n_tok) n_tok = job[i].n_tok;
    }
    fxi_ranges_init(&p.ranges, c, n_panel, n_panel, n_tok, MAX_PANEL);
    fxi_pool_run(c->pool, linear_task, &p, fxi_pool_n_thread(c->pool));
}

// ---- feed-forward ------------------------------------------------------------------------------
//
// Two layers, joined into what the next one reads, for one block or many experts. A thread takes a
// range of panels of gate and the same range of up, a whole number of blocks of 32 outputs. Both
// are computed for a chunk of tokens into the thread's scratch, which fits the second-level cache,
// and joined and rounded there: [n_tok][n_ffn] of gate or up is never written.

#define CHUNK_TOK    128
#define CHUNK_PANEL  16                                    // of CHUNK_TOK tokens; more of fewer
#define CHUNK_FLOATS (CHUNK_TOK * CHUNK_PANEL * FXI_PANEL) // of gate, and of up

typedef struct ffn_job {
    const fxi_compute *c;
    const fxi_ffn_pass *pass;
    int n_panel; // of each part
    fxi_panel_ranges ranges;
} ffn_job;

// A chunk of tokens and outputs of a part.
typedef struct ffn_chunk {
    const fxi_ffn_part *of;
    int tok0, n_tok;
    int out0, n_out;
    float *gate, *up; // [n_tok][n_out] in the scratch
} ffn_chunk;

size_t fxi_compute_ffn_scratch(const fxi_compute *c)
{
    return 2 * (size_t)CHUNK_FLOATS * (size_t)fxi_pool_n_thread(c->pool);
}

// Computes the chunk's panels of a layer into y.
static void compute_layer(const ffn_job *job, const ffn_chunk *part, const fxi_linear *w,
                          const float *bias, float *y)
{
    const fxi_kernels *k = job->c->k;
    const fxi_act tokens = act_from(job->pass->a, part->of->row0 + part->tok0, w->n_in);
    const fxi_linear panels = fxi_linear_part(w, part->out0, part->n_out);
    k->linear[w->type](&panels, &tokens, part->n_tok, 0, fxi_linear_n_panel(part->n_out), y,
                       (size_t)part->n_out);
    for (int t = 0; bias && t < part->n_tok; t++)
        k->add(y + (size_t)t * (size_t)part->n_out, bias + part->out0, part->n_out);
}

static void join_layers(const ffn_job *job, const ffn_chunk *part)
{
    const fxi_ffn_pass *p = job->pass;
    const fxi_kernels *k = job->c->k;
    const size_t n = (size_t)part->n_out, n_ffn = (size_t)part->of->up->n_out;
    for (int t = 0; t < part->n_tok; t++) {
        const size_t row = (size_t)(part->of->row0 + part->tok0 + t);
        const size_t at = row * n_ffn + (size_t)part->out0;
        float *up = part->up + (size_t)t * n, *y = p->y ? p->y + at : up;
        if (part->of->gate)
            k->gate[p->act](part->gate + (size_t)t * n, up, part->n_out, y);
        else
            k->act[p->act](up, part->n_out, y);
        if (!p->y)
            k->quant_q8(y, part->n_out, p->q8->q + at, p->q8->d + at / FXI_Q_BLOCK,
                        p->q8->sum + at / 16);
    }
}

// The outputs from out0 on, up to end, of all tokens of a part.
static void run_outputs(const ffn_job *job, const fxi_ffn_part *of, int out0, int end,
                        float *scratch)
{
    ffn_chunk part = {.of = of, .out0 = out0, .n_out = end - out0, .gate = scratch};
    for (; part.tok0 < of->n_tok; part.tok0 += part.n_tok) {
        const int left = of->n_tok - part.tok0;
        part.n_tok = left < CHUNK_TOK ? left : CHUNK_TOK;
        part.up = part.gate + part.n_tok * part.n_out;
        if (of->gate) compute_layer(job, &part, of->gate, of->gate_bias, part.gate);
        compute_layer(job, &part, of->up, of->up_bias, part.up);
        join_layers(job, &part);
    }
}

// The panels from `first` to `end` of all parts, which belong to one of them, in as few steps as
// the scratch allows.
static void run_range(const ffn_job *job, int first, int end, float *scratch)
{
    const fxi_ffn_part *of = &job->pass->part[first / job->n_panel];
    const int n_ffn = of->up->n_out, n_tok = of->n_tok < CHUNK_TOK ? of->n_tok : CHUNK_TOK;
    const int out0 = first % job->n_panel * FXI_PANEL, rest = (end - first) * FXI_PANEL;
    const int out1 = n_ffn - out0 < rest ? n_ffn : out0 + rest;
    const int most = CHUNK_FLOATS / (n_tok ? n_tok : 1) / (4 * FXI_PANEL) * (4 * FXI_PANEL);
    for (int at = out0, to; at < out1; at = to) {
        to = out1 - at < most ? out1 : at + most;
        run_outputs(job, of, at, to, scratch);
    }
}

// One task per thread, so that each has its own scratch.
static void ffn_task(void *arg, int task)
{
    ffn_job *job = arg;
    float *scratch = job->pass->scratch + 2 * (size_t)task * CHUNK_FLOATS;
    for (int first, end; fxi_ranges_take(&job->ranges, &first, &end);)
        run_range(job, first, end, scratch);
}

void fxi_compute_ffn(const fxi_compute *c, const fxi_ffn_pass *pass)
{
    ffn_job job = {.c = c, .pass = pass, .n_panel = fxi_linear_n_panel(pass->part[0].up->n_out)};
    fxi_ranges_init(&job.ranges, c, job.n_panel * pass->n_part, job.n_panel, pass->n_tok,
                    CHUNK_PANEL);
    fxi_pool_run(c->pool, ffn_task, &job, fxi_pool_n_thread(c->pool));
}

// ---- attention ----------------------------------------------------------------------------------

// Attention of a batch, in parallel on the pool.
//
// An item is a block and a KV head; for blocks of one token, as in decoding, it is a block and all
// KV heads, because their rows are neighbours in memory. If few items hold most of the positions,
// as with one long sequence, an item is split into ranges of segments, whose partial results are
// merged afterwards; kernels.h says why this changes no bit. The plan is made once per pass, for
// all layers.

enum {
    ITEMS_PER_THREAD = 4, // to balance the threads
    MIN_TOK = 8,          // of a block: fewer do not pay for widening keys and values
    MAX_ROW = 256,        // query rows of a block: more do not stay in a cache
    MIN_SHARE = 16,       // heads of a latent layer: fewer do not pay for widening rows, either
    MAX_LANE = 64,        // of items
};

#define MAX_PART_BYTES ((size_t)512 << 20) // of partial results

// ---- the plan ----------------------------------------------------------------------------------

// Query heads that read a row of the cache, however they are divided (share_heads).
static int heads_of_row(const fxi_attn_pass *p)
{
    return p->call.v_dim ? p->call.n_head : p->call.group;
}

static int max_block_tok(const fxi_attn_pass *p)
{
    const int n = MAX_ROW / heads_of_row(p);
    return n < 1 ? 1 : n > FXI_ATTN_MAX_TOK ? FXI_ATTN_MAX_TOK : n;
}

int fxi_compute_attn_block_tok(const fxi_compute *c, const fxi_attn_pass *p, int n_tok)
{
    const int most = max_block_tok(p), least = most < MIN_TOK ? most : MIN_TOK;
    int64_t n = (int64_t)n_tok * p->n_kv_head / (ITEMS_PER_THREAD * fxi_pool_n_thread(c->pool));
    return n < least ? least : n > most ? most : (int)n;
}

static int block_segments(const fxi_attn_block *b)
{
    return fxi_attn_n_segment(b->n_pos ? b->n_pos : b->pos + b->n_tok);
}

// Segments from b->segment0 on are seen; the cost of a block is reading them.
static int seen_segments(const fxi_attn_block *b)
{
    return block_segments(b) - b->segment0;
}

static int64_t block_cost(const fxi_attn_block *b)
{
    return (int64_t)seen_segments(b) * b->n_tok;
}

static size_t floats_per_part(const fxi_attn_pass *p)
{
    return fxi_attn_part_floats(fxi_attn_value_dim(&p->call));
}

static size_t parts_per_head(const fxi_attn_pass *p, const fxi_attn_block *b)
{
    return (size_t)block_segments(b) * (size_t)b->n_tok * (size_t)p->call.group;
}

// How many partial results there is room for. A KV head of a block is worth splitting on its own if
// it has more than one of 2 n_thread shares of all the work, so there is room for 2 n_thread of
// these, within MAX_PART_BYTES; and at least for all KV heads of one sequence.
static size_t part_capacity(const fxi_compute *c, const fxi_attn_pass *p)
{
    const size_t head = (size_t)heads_of_row(p) * (size_t)fxi_attn_n_segment(p->ctx_tok),
                 head_bytes = head * floats_per_part(p) * sizeof(float),
                 n_kv = p->call.v_dim ? 1 : (size_t)p->n_kv_head;
    size_t n = 2 * (size_t)fxi_pool_n_thread(c->pool);
    if (n > MAX_PART_BYTES / head_bytes) n = MAX_PART_BYTES / head_bytes;
    return (n > n_kv ? n : n_kv) * head;
}

typedef struct planner {
    const fxi_attn_pass *p;
    int64_t share;         // most work of an item that is not split
    bool cuts;             // there is more than one thread
    size_t capacity, used; // partial results
} planner;

// Makes items of n_head KV heads each, split if that pays. False: splitting would pay, but there is
// no room for the partial results.
static bool plan_items(const planner *pl, fxi_attn_block *b, int n_head)
{
    int64_t n = (block_cost(b) * n_head + pl->share - 1) / pl->share;
    bool worth = pl->cuts && n > 2;
    bool room = parts_per_head(pl->p, b) * (size_t)pl->p->n_kv_head <= pl->capacity - pl->used;
    b->n_head = n_head;
    b->n_range = worth && room ? (int)(n < seen_segments(b) ? n : seen_segments(b)) : 1;
    return room || !worth;
}

// The heads of a latent layer all read one row. Where there are fewer segments than threads, they
// are divided as if they were those of several KV heads, each of which reads the row again.
static void share_heads(const fxi_compute *c, fxi_attn_pass *p, const fxi_attn_block *block)
{
    if (!p->call.v_dim) return;
    int64_t n_segment = 0;
    for (int i = 0; i < p->n_block; i++) n_segment += seen_segments(&block[i]);
    p->n_kv_head = 1;
    p->call.group = p->call.n_head;
    for (; n_segment * p->n_kv_head < fxi_pool_n_thread(c->pool) && p->call.group % 2 == 0 &&
           p->call.group / 2 >= MIN_SHARE;
         p->n_kv_head *= 2)
        p->call.group /= 2;
}

// KV heads of a call for one token.
static int most_heads(const fxi_attn_pass *p)
{
    return p->n_kv_head < FXI_ATTN_MAX_TOK ? p->n_kv_head : FXI_ATTN_MAX_TOK;
}

void fxi_compute_attn_plan(const fxi_compute *c, fxi_attn_pass *p, fxi_attn_block *block)
{
    const int n_thread = fxi_pool_n_thread(c->pool);
    int64_t total = 0;
    for (int i = 0; i < p->n_block; i++) {
        block[i].segment0 = fxi_attn_first(block[i].pos, p->call.window) / FXI_ATTN_SEGMENT;
        total += block_cost(&block[i]);
    }
    share_heads(c, p, block);
    total *= p->n_kv_head;
    planner pl = {.p = p,
                  .share = total / (ITEMS_PER_THREAD * n_thread) + 1,
                  .cuts = n_thread > 1,
                  .capacity = part_capacity(c, p)};
    p->n_item = 0;
    p->is_cut = false;
    for (int i = 0; i < p->n_block; i++) {
        fxi_attn_block *b = &block[i];
        b->item0 = p->n_item;
        b->part0 = pl.used;
        if (b->n_tok > 1 || p->call.v_dim || !plan_items(&pl, b, most_heads(p)))
            plan_items(&pl, b, 1);
        if (b->n_range > 1) pl.used += parts_per_head(p, b) * (size_t)p->n_kv_head;
        p->is_cut |= b->n_range > 1;
        p->n_item += b->n_range * ((p->n_kv_head + b->n_head - 1) / b->n_head);
    }
    p->block = block;
}

// ---- the work ----------------------------------------------------------------------------------

typedef struct attn_job {
    const fxi_compute *c;
    const fxi_attn_pass *pass;
    size_t scratch_floats; // per thread
    float *part;           // partial results of items that are split
    int n_item, n_lane;
    void (*run)(const struct attn_job *job, int item, int then, float *scratch);
    atomic_int next[MAX_LANE]; // the next item of each lane
} attn_job;

// A call has a block's tokens and one KV head, or one token and many KV heads.
static size_t scratch_per_thread(const fxi_attn_pass *p)
{
    const fxi_attn *a = &p->call;
    const int n_tok = max_block_tok(p), n_kv = a->v_dim ? 1 : most_heads(p);
    const int n_row = (n_tok > n_kv ? n_tok : n_kv) * heads_of_row(p);
    return (fxi_attn_scratch(n_row, a->head_dim, fxi_attn_value_dim(a)) + 15) / 16 * 16;
}

size_t fxi_compute_attn_scratch(const fxi_compute *c, const fxi_attn_pass *p)
{
    return scratch_per_thread(p) * (size_t)fxi_pool_n_thread(c->pool) +
           part_capacity(c, p) * floats_per_part(p);
}

static fxi_attn kernel_call(const fxi_attn_pass *p, const fxi_attn_block *b, int kv_head,
                            int n_kv_head, float *scratch)
{
    fxi_attn a = p->call;
    const size_t head = (size_t)b->row * (size_t)a.n_head;
    a.view = fxi_kv_layer(&b->view, p->kv_plane);
    a.kv_head = kv_head;
    a.n_kv_head = n_kv_head;
    a.n_tok = b->n_tok;
    a.pos = b->pos;
    a.n_pos = b->n_pos;
    a.q += head * (size_t)a.head_dim;
    a.out += head * (size_t)fxi_attn_value_dim(&a);
    a.scratch = scratch;
    return a;
}

static float *block_parts(const attn_job *job, const fxi_attn_block *b, int kv_head)
{
    size_t at = b->part0 + parts_per_head(job->pass, b) * (size_t)kv_head;
    return job->part + at * floats_per_part(job->pass);
}

// The last block whose items begin at or before this one.
static const fxi_attn_block *find_block(const fxi_attn_pass *p, int item)
{
    int low = 0, high = p->n_block - 1;
    while (low < high) {
        int mid = low + (high - low + 1) / 2;
        if (p->block[mid].item0 <= item)
            low = mid;
        else
            high = mid - 1;
    }
    return &p->block[low];
}

// item: index of a block's group of heads and a range
static fxi_attn item_call(const attn_job *job, int item, float *scratch)
{
    const fxi_attn_pass *p = job->pass;
    const fxi_attn_block *b = find_block(p, item);
    const int kv_head = (item - b->item0) / b->n_range * b->n_head, left = p->n_kv_head - kv_head;
    return kernel_call(p, b, kv_head, b->n_head < left ? b->n_head : left, scratch);
}

static void attend_item(const attn_job *job, int item, int then, float *scratch)
{
    const fxi_kernels *k = job->c->k;
    const fxi_attn_block *b = find_block(job->pass, item);
    const int range = (item - b->item0) % b->n_range;
    fxi_attn a = item_call(job, item, scratch), next;
    if (then >= 0) {
        next = item_call(job, then, scratch);
        a.then = &next;
    }
    const int64_t n = seen_segments(b);
    if (b->n_range == 1)
        k->attention(&a);
    else
        k->attention_part(&a, b->segment0 + (int)(n * range / b->n_range),
                          b->segment0 + (int)(n * (range + 1) / b->n_range),
                          block_parts(job, b, a.kv_head));
}

// item: index of a block and a KV head
static void merge_item(const attn_job *job, int item, int then, float *scratch)
{
    (void)then;
    const fxi_attn_block *b = &job->pass->block[item / job->pass->n_kv_head];
    if (b->n_range == 1) return;
    int kv_head = item % job->pass->n_kv_head;
    fxi_attn a = kernel_call(job->pass, b, kv_head, 1, scratch);
    job->c->k->attention_merge(&a, block_parts(job, b, kv_head));
}

// Takes the next item of the task's lane, or of another one when that is empty. Lane i has every
// n_lane-th item from i on, so a thread mostly knows which item it takes next. -1: none is left.
static int take_item(attn_job *job, int task)
{
    for (int i = 0; i < job->n_lane; i++) {
        atomic_int *next = &job->next[(task + i) % job->n_lane];
        if (atomic_load_explicit(next, memory_order_relaxed) >= job->n_item) continue;
        const int item = atomic_fetch_add_explicit(next, job->n_lane, memory_order_relaxed);
        if (item < job->n_item) return item;
    }
    return -1;
}

// One task per thread, so that each has its own scratch. Items are taken one by one, in descending
// order, because the last ones attend to most positions.
static void attn_task(void *arg, int task)
{
    attn_job *job = arg;
    const int last = job->n_item - 1;
    float *scratch = job->pass->scratch + (size_t)task * job->scratch_floats;
    for (int item; (item = take_item(job, task)) >= 0;)
        job->run(job, last - item, item + job->n_lane <= last ? last - item - job->n_lane : -1,
                 scratch);
}

static void run_items(attn_job *job, int n_item,
                      void (*run)(const attn_job *job, int item, int then, float *scratch))
{
    const int n_thread = fxi_pool_n_thread(job->c->pool);
    job->n_item = n_item;
    job->n_lane = n_thread < MAX_LANE ? n_thread : MAX_LANE;
    job->run = run;
    for (int i = 0; i < job->n_lane; i++) atomic_init(&job->next[i], i);
    fxi_pool_run(job->c->pool, attn_task, job, n_thread);
}

void fxi_compute_attention(const fxi_compute *c, const fxi_attn_pass *p)
{
    attn_job job = {.c = c, .pass = p};
    job.scratch_floats = scratch_per_thread(p);
    job.part = p->scratch + job.scratch_floats * (size_t)fxi_pool_n_thread(c->pool);
    run_items(&job, p->n_item, attend_item);
    if (p->is_cut) run_items(&job, p->n_block * p->n_kv_head, merge_item);
}
