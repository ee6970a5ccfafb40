// compute_attention.c - attention of a batch, in parallel on the pool.
//
// An item is a block and a KV head; for blocks of one token, as in decoding, it is a block and all
// KV heads, because their rows are neighbours in memory. If few items hold most of the positions,
// as with one long sequence, an item is split into ranges of segments, whose partial results are
// merged afterwards; kernels.h says why this changes no bit. The plan is made once per pass, for
// all layers.
#include <stdatomic.h>

#include "model/host/compute.h"

enum {
    ITEMS_PER_THREAD = 4, // to balance the threads
    MIN_TOK = 8,          // of a block: fewer do not pay for widening keys and values
    MAX_LANE = 64,        // of items
};

// ---- the plan ----------------------------------------------------------------------------------

int fxi_compute_attn_block_tok(const fxi_compute *c, int n_tok, int n_kv_head)
{
    int64_t n = (int64_t)n_tok * n_kv_head / (ITEMS_PER_THREAD * fxi_pool_n_thread(c->pool));
    return n < MIN_TOK ? MIN_TOK : n > FXI_ATTN_MAX_TOK ? FXI_ATTN_MAX_TOK : (int)n;
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

static size_t parts_per_head(const fxi_attn_pass *p, const fxi_attn_block *b)
{
    return (size_t)block_segments(b) * (size_t)b->n_tok * (size_t)(p->n_head / p->n_kv_head);
}

// How many partial results there is room for. A KV head of a block is worth splitting on its own if
// it has more than one of 2 n_thread shares of all the work, so there is room for 2 n_thread of
// these; and at least for all KV heads of one sequence.
static size_t part_capacity(const fxi_compute *c, int n_head, int n_kv_head, int ctx_tok)
{
    size_t n = 2 * (size_t)fxi_pool_n_thread(c->pool), group = (size_t)(n_head / n_kv_head);
    if (n < (size_t)n_kv_head) n = (size_t)n_kv_head;
    return n * group * (size_t)fxi_attn_n_segment(ctx_tok);
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

void fxi_compute_attn_plan(const fxi_compute *c, fxi_attn_pass *p, fxi_attn_block *block)
{
    const int n_thread = fxi_pool_n_thread(c->pool), n_kv = p->n_kv_head;
    const int most_heads = n_kv < FXI_ATTN_MAX_TOK ? n_kv : FXI_ATTN_MAX_TOK;
    int64_t total = 0;
    for (int i = 0; i < p->n_block; i++) {
        block[i].segment0 = fxi_attn_first_segment(block[i].pos, p->window);
        total += block_cost(&block[i]) * p->n_kv_head;
    }
    planner pl = {.p = p,
                  .share = total / (ITEMS_PER_THREAD * n_thread) + 1,
                  .cuts = n_thread > 1,
                  .capacity = part_capacity(c, p->n_head, p->n_kv_head, p->ctx_tok)};
    p->n_item = 0;
    p->is_cut = false;
    for (int i = 0; i < p->n_block; i++) {
        fxi_attn_block *b = &block[i];
        *b = (fxi_attn_block){.view = b->view,
                              .row = b->row,
                              .n_tok = b->n_tok,
                              .pos = b->pos,
                              .n_pos = b->n_pos,
                              .segment0 = b->segment0,
                              .item0 = p->n_item};
        b->part0 = pl.used;
        if (b->n_tok > 1 || !plan_items(&pl, b, most_heads)) plan_items(&pl, b, 1);
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

static size_t scratch_per_thread(int n_head, int n_kv_head, int head_dim)
{
    return (fxi_attn_scratch(n_head / n_kv_head, head_dim) + 15) / 16 * 16;
}

size_t fxi_compute_attn_scratch(const fxi_compute *c, int n_head, int n_kv_head, int head_dim,
                                int ctx_tok)
{
    return scratch_per_thread(n_head, n_kv_head, head_dim) * (size_t)fxi_pool_n_thread(c->pool) +
           part_capacity(c, n_head, n_kv_head, ctx_tok) * fxi_attn_part_floats(head_dim);
}

static fxi_attn kernel_call(const fxi_attn_pass *p, const fxi_attn_block *b, int kv_head,
                            int n_kv_head, float *scratch)
{
    size_t row = (size_t)b->row * (size_t)p->n_head * (size_t)p->head_dim;
    return (fxi_attn){
        .view = fxi_kv_layer(&b->view, p->layer),
        .kv_type = p->kv_type,
        .kv_head = kv_head,
        .n_kv_head = n_kv_head,
        .n_head = p->n_head,
        .head_dim = p->head_dim,
        .group = p->n_head / p->n_kv_head,
        .n_tok = b->n_tok,
        .pos = b->pos,
        .n_pos = b->n_pos,
        .q = p->q + row,
        .out = p->out + row,
        .window = p->window,
        .softcap = p->softcap,
        .sink = p->sink,
        .scale = p->scale,
        .scratch = scratch,
    };
}

static float *block_parts(const attn_job *job, const fxi_attn_block *b, int kv_head)
{
    size_t at = b->part0 + parts_per_head(job->pass, b) * (size_t)kv_head;
    return job->part + at * fxi_attn_part_floats(job->pass->head_dim);
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
    job.scratch_floats = scratch_per_thread(p->n_head, p->n_kv_head, p->head_dim);
    job.part = p->scratch + job.scratch_floats * (size_t)fxi_pool_n_thread(c->pool);
    run_items(&job, p->n_item, attend_item);
    if (p->is_cut) run_items(&job, p->n_block * p->n_kv_head, merge_item);
}
