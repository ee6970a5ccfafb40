// make_model - writes a GGUF file of the Llama architecture with random weights, or with --latent
// of DeepSeek's, so that benches and tests have models of real sizes:
//
//     make_model -o FILE --layers 22 --dim 2048 --ffn 5632 --heads 32 --kv-heads 4 --vocab 32000
//         --type q8_0
//
// Standard deviations keep activations near 1: 1 / sqrt(n_in) for a matrix of n_in columns, divided
// by sqrt(2 * layers) if it adds to the residual stream; the output matrix gives logits a standard
// deviation of 2. Number i of tensor t depends only on (seed, t, i): equal options give equal
// files, with any number of threads. Memory: one batch of numbers, whatever the model's size.
//
// With --holes all weights are 0 and take no room on the disk: for who fills them in elsewhere.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/number/rng.h"
#include "base/option/opt.h"
#include "base/system/pool.h"
#include "format/gguf_write.h"
#include "make_vocab.h"

enum {
    TASK_ELEMS = 1 << 14, // of a task; a multiple of every block and of DRAW_ELEMS
    BATCH_ELEMS = 1 << 20,
    DRAW_ELEMS = 256,
    MAX_THREADS = 16,
};

#define LOGIT_STDDEV 2.0

typedef struct options {
    const char *path, *type;
    int n_layer, dim, n_ffn, n_head, n_kv_head, head_dim, n_lora, n_expert, n_used, n_vocab, n_ctx;
    uint64_t seed;
    bool tied, holes;
} options;

#define FIELD(f) offsetof(options, f)

static const fxi_opt opts[] = {
    {"output", 'o', "FILE", FXI_OPT_STR, 0, 0, NULL, FIELD(path), 1, "the file to write"},
    {"layers", 0, "N", FXI_OPT_INT, 1, 1024, "4", FIELD(n_layer), 1, "blocks"},
    {"dim", 0, "N", FXI_OPT_INT, 8, 65536, "256", FIELD(dim), 1, "width of the residual stream"},
    {"ffn", 0, "N", FXI_OPT_INT, 8, 262144, "704", FIELD(n_ffn), 1,
     "width of the feed-forward part"},
    {"heads", 0, "N", FXI_OPT_INT, 1, 1024, "8", FIELD(n_head), 1,
     "query heads; they divide --dim"},
    {"kv-heads", 0, "N", FXI_OPT_INT, 1, 1024, "4", FIELD(n_kv_head), 1,
     "KV heads; they divide --heads"},
    {"head-dim", 0, "N", FXI_OPT_INT, 0, 1024, "0", FIELD(head_dim), 1,
     "width of a head; 0: --dim / --heads"},
    {"latent", 0, "N", FXI_OPT_INT, 0, 1024, "0", FIELD(n_lora), 1,
     "latent attention: normalised numbers of a row, beside which half a --head-dim are rotated; "
     "0: "
     "none"},
    {"experts", 0, "N", FXI_OPT_INT, 0, 1024, "0", FIELD(n_expert), 1,
     "experts of each block, of width --ffn; 0: none"},
    {"experts-used", 0, "N", FXI_OPT_INT, 1, 1024, "2", FIELD(n_used), 1,
     "experts that a token goes through"},
    {"vocab", 0, "N", FXI_OPT_INT, MADE_MIN_TOKENS, MADE_MAX_TOKENS, "4096", FIELD(n_vocab), 1,
     "tokens"},
    {"ctx", 0, "N", FXI_OPT_INT, 1, 1 << 24, "2048", FIELD(n_ctx), 1, "positions"},
    {"type", 0, "TYPE", FXI_OPT_STR, 0, 0, "f16", FIELD(type), 1,
     "type of the matrices, see below"},
    {"seed", 0, "N", FXI_OPT_U64, 0, 0x1p64, "1", FIELD(seed), 1, "seed of the random weights"},
    {"tied", 0, NULL, FXI_OPT_FLAG, 0, 0, "no", FIELD(tied), 1,
     "the embedding is the output matrix"},
    {"holes", 0, NULL, FXI_OPT_FLAG, 0, 0, "no", FIELD(holes), 1,
     "weights are 0, and the file is sparse"},
};

static const fxi_opt_table opt_table = {
    .opt = opts, .n_opt = sizeof opts / sizeof *opts, .env_prefix = "MAKE_MODEL_"};

typedef struct mix { // a value of --type
    const char *name;
    fxi_dtype type, finer; // of most matrices, and of the most sensitive ones
    uint32_t file_type;    // general.file_type
} mix;

static const mix mixes[] = {
    {"f32", FXI_F32, FXI_F32, 0},       {"f16", FXI_F16, FXI_F16, 1},
    {"bf16", FXI_BF16, FXI_BF16, 32},   {"q8_0", FXI_Q8_0, FXI_Q8_0, 7},
    {"q4_0", FXI_Q4_0, FXI_Q4_0, 2},    {"q4_1", FXI_Q4_1, FXI_Q4_1, 3},
    {"q5_0", FXI_Q5_0, FXI_Q5_0, 8},    {"q5_1", FXI_Q5_1, FXI_Q5_1, 9},
    {"q2_k", FXI_Q2_K, FXI_Q2_K, 10},   {"q3_k", FXI_Q3_K, FXI_Q3_K, 11},
    {"q4_k", FXI_Q4_K, FXI_Q4_K, 14},   {"q5_k", FXI_Q5_K, FXI_Q5_K, 16},
    {"q6_k", FXI_Q6_K, FXI_Q6_K, 18},   {"q4_k_m", FXI_Q4_K, FXI_Q6_K, 15},
    {"q5_k_m", FXI_Q5_K, FXI_Q6_K, 17},
};

#define TYPE_NAMES \
    "f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k, q3_k, q4_k, q5_k, q6_k, q4_k_m or q5_k_m"

typedef struct model_maker {
    options o;
    const mix *mix;
    fxi_gguf_writer *w;
    fxi_pool *pool;
    unsigned char *batch; // encoded numbers, at most BATCH_ELEMS
} model_maker;

//
// The list of tensors
//

typedef enum width { // the size of a dimension
    ONE,
    DIM,
    FFN,
    HEAD,
    HEADS,
    QUERY,
    KV,
    LORA,
    ROW,
    LONG_QUERY,
    EXPERT,
    VOCAB
} width;

typedef enum spread { NORM, MATRIX, RESIDUAL, ROUTER, EMBEDDING, OUTPUT } spread;

typedef struct tensor {
    const char *name; // without "blk.N."
    width ne0, ne1;
    spread spread;
    bool sensitive;    // has the finer type in some blocks
    width slice;       // one for each of so many; ONE: a single matrix
    unsigned in_model; // the models that have it: a kind of feed-forward, or of attention
} tensor;

enum { DENSE = 1, EXPERTS = 2, PLAIN = 4, LATENT = 8, ALL = DENSE | EXPERTS | PLAIN | LATENT };

static const tensor embedding = {"token_embd.weight", DIM, VOCAB, EMBEDDING, .in_model = ALL};
static const tensor of_block[] = {
    {"attn_norm.weight", DIM, ONE, NORM, .in_model = ALL},
    {"attn_q.weight", DIM, QUERY, MATRIX, .in_model = PLAIN},
    {"attn_k.weight", DIM, KV, MATRIX, .in_model = PLAIN},
    {"attn_v.weight", DIM, KV, MATRIX, .sensitive = true, .in_model = PLAIN},
    {"attn_q.weight", DIM, LONG_QUERY, MATRIX, .in_model = LATENT},
    {"attn_kv_a_mqa.weight", DIM, ROW, MATRIX, .in_model = LATENT},
    {"attn_kv_a_norm.weight", LORA, ONE, NORM, .in_model = LATENT},
    {"attn_k_b.weight", HEAD, LORA, MATRIX, .slice = HEADS, .in_model = LATENT},
    {"attn_v_b.weight", LORA, HEAD, MATRIX, .slice = HEADS, .in_model = LATENT},
    {"attn_output.weight", QUERY, DIM, RESIDUAL, .in_model = ALL},
    {"ffn_norm.weight", DIM, ONE, NORM, .in_model = ALL},
    {"ffn_gate.weight", DIM, FFN, MATRIX, .in_model = DENSE},
    {"ffn_up.weight", DIM, FFN, MATRIX, .in_model = DENSE},
    {"ffn_down.weight", FFN, DIM, RESIDUAL, .sensitive = true, .in_model = DENSE},
    {"ffn_gate_inp.weight", DIM, EXPERT, ROUTER, .in_model = EXPERTS},
    {"ffn_gate_exps.weight", DIM, FFN, MATRIX, .slice = EXPERT, .in_model = EXPERTS},
    {"ffn_up_exps.weight", DIM, FFN, MATRIX, .slice = EXPERT, .in_model = EXPERTS},
    {"ffn_down_exps.weight", FFN, DIM, RESIDUAL, .sensitive = true, .slice = EXPERT,
     .in_model = EXPERTS},
};
static const tensor output_norm = {"output_norm.weight", DIM, ONE, NORM, .in_model = ALL};
static const tensor output = {"output.weight", DIM, VOCAB, OUTPUT, .in_model = ALL};

enum { N_OF_BLOCK = sizeof of_block / sizeof *of_block, NO_BLOCK = -1 };

typedef void visit_fn(model_maker *m, const tensor *t, int block, uint32_t index);

// All tensors in the file's order.
static void visit_tensors(model_maker *m, visit_fn *visit)
{
    const unsigned has = (m->o.n_expert ? EXPERTS : DENSE) | (m->o.n_lora ? LATENT : PLAIN);
    uint32_t index = 0;
    visit(m, &embedding, NO_BLOCK, index++);
    for (int block = 0; block < m->o.n_layer; block++)
        for (int i = 0; i < N_OF_BLOCK; i++)
            if (of_block[i].in_model & has) visit(m, &of_block[i], block, index++);
    visit(m, &output_norm, NO_BLOCK, index++);
    if (!m->o.tied) visit(m, &output, NO_BLOCK, index++);
}

static int head_dim(const options *o)
{
    return o->head_dim ? o->head_dim : o->dim / o->n_head;
}

static int n_rot(const options *o) // of a head, or of a latent row
{
    return o->n_lora ? head_dim(o) / 4 * 2 : head_dim(o);
}

static uint64_t size_along(const model_maker *m, width w)
{
    const options *o = &m->o;
    const int size[] = {[ONE] = 1,
                        [DIM] = o->dim,
                        [FFN] = o->n_ffn,
                        [HEAD] = head_dim(o),
                        [HEADS] = o->n_head,
                        [QUERY] = head_dim(o) * o->n_head,
                        [KV] = head_dim(o) * o->n_kv_head,
                        [LORA] = o->n_lora,
                        [ROW] = o->n_lora + n_rot(o),
                        [LONG_QUERY] = (head_dim(o) + n_rot(o)) * o->n_head,
                        [EXPERT] = o->n_expert,
                        [VOCAB] = o->n_vocab};
    return (uint64_t)size[w];
}

static uint64_t n_elem(const model_maker *m, const tensor *t)
{
    return size_along(m, t->ne0) * size_along(m, t->ne1) * size_along(m, t->slice);
}

// The output matrix has the finer type, and so have sensitive matrices in the first and last eighth
// of the blocks and in every third block between.
static bool is_finer(const model_maker *m, const tensor *t, int block)
{
    if (block == NO_BLOCK) return t->spread == OUTPUT || m->o.tied;
    int n = m->o.n_layer;
    return t->sensitive && (block < n / 8 || block >= 7 * n / 8 || (block - n / 8) % 3 == 2);
}

// Rows that are not a whole number of a _K type's blocks are stored as Q8_0 or F16.
static fxi_dtype type_of(const model_maker *m, const tensor *t, int block)
{
    if (t->spread == NORM || t->spread == ROUTER) return FXI_F32;
    fxi_dtype type = is_finer(m, t, block) ? m->mix->finer : m->mix->type;
    uint64_t n_in = size_along(m, t->ne0);
    if (n_in % fxi_dtype_find(type)->block_elems == 0) return type;
    return n_in % FXI_Q8_0_ELEMS == 0 ? FXI_Q8_0 : FXI_F16;
}

static void declare_tensor(model_maker *m, const tensor *t, int block, uint32_t index)
{
    (void)index;
    char name[64];
    const uint64_t ne[] = {size_along(m, t->ne0), size_along(m, t->ne1), size_along(m, t->slice)};
    const uint32_t n_dim = t->slice != ONE ? 3 : t->ne1 == ONE ? 1 : 2;
    if (block == NO_BLOCK)
        snprintf(name, sizeof name, "%s", t->name);
    else
        snprintf(name, sizeof name, "blk.%d.%s", block, t->name);
    fxi_gguf_declare_tensor(m->w, name, type_of(m, t, block), n_dim, ne);
}

//
// Numbers
//

typedef struct number_draw {
    uint64_t seed;
    uint32_t stream;     // the tensor
    uint64_t first, end; // numbers of this batch; first is a multiple of DRAW_ELEMS
    float mean, step;
    fxi_dtype type;
    unsigned char *dst;
} number_draw;

static size_t encoded_bytes(fxi_dtype type, uint64_t n_elem)
{
    const fxi_dtype_info *info = fxi_dtype_find(type);
    return n_elem / info->block_elems * info->block_bytes;
}

// Draws n numbers of the tensor from number i on, rounded up to a multiple of 8: each 128 random
// bits make eight. The sum of two bytes is near enough to normal. Pre: i is a multiple of 8.
static void draw_numbers(const number_draw *d, uint64_t i, size_t n, float dst[DRAW_ELEMS])
{
    const uint32_t key[2] = {(uint32_t)d->seed, (uint32_t)(d->seed >> 32)};
    unsigned char r[16];
    for (size_t k = 0; k < n; k += 8) {
        uint64_t counter = (i + k) / 8;
        uint32_t words[4];
        fxi_philox(key, (uint32_t[4]){(uint32_t)counter, (uint32_t)(counter >> 32), d->stream, 0},
                   words);
        memcpy(r, words, sizeof r);
        for (int m = 0; m < 8; m++)
            dst[k + (size_t)m] = d->mean + d->step * (float)(r[2 * m] + r[2 * m + 1] - 255);
    }
}

static void draw_numbers_task(void *arg, int task)
{
    const number_draw *d = arg;
    float x[DRAW_ELEMS];
    uint64_t at = d->first + (uint64_t)task * TASK_ELEMS;
    uint64_t end = at + TASK_ELEMS < d->end ? at + TASK_ELEMS : d->end;
    for (; at < end; at += DRAW_ELEMS) {
        size_t n = end - at < DRAW_ELEMS ? end - at : DRAW_ELEMS;
        draw_numbers(d, at, n, x);
        fxi_row_from_f32(d->type, x, n, d->dst + encoded_bytes(d->type, at - d->first));
    }
}

// The standard deviation of a tensor's numbers.
static double stddev_of(const model_maker *m, const tensor *t)
{
    const double by_width = 1 / sqrt((double)size_along(m, t->ne0));
    const double stddev[] = {[NORM] = 0.1,
                             [MATRIX] = by_width,
                             [RESIDUAL] = by_width / sqrt(2.0 * m->o.n_layer),
                             [ROUTER] = by_width,
                             [EMBEDDING] = m->o.tied ? LOGIT_STDDEV * by_width : 1,
                             [OUTPUT] = LOGIT_STDDEV * by_width};
    return stddev[t->spread];
}

static void write_tensor(model_maker *m, const tensor *t, int block, uint32_t index)
{
    const double byte_sum_stddev = sqrt(2 * (256.0 * 256 - 1) / 12);
    uint64_t n = n_elem(m, t);
    number_draw d = {.seed = m->o.seed,
                     .stream = index,
                     .mean = t->spread == NORM ? 1 : 0,
                     .step = (float)(stddev_of(m, t) / byte_sum_stddev),
                     .type = type_of(m, t, block),
                     .dst = m->batch};
    if (m->o.holes) return fxi_gguf_write_data(m->w, NULL, encoded_bytes(d.type, n));
    for (; d.first < n && fxi_gguf_writer_status(m->w) == FX_OK; d.first = d.end) {
        d.end = n - d.first < BATCH_ELEMS ? n : d.first + BATCH_ELEMS;
        fxi_pool_run(m->pool, draw_numbers_task, &d,
                     (int)((d.end - d.first + TASK_ELEMS - 1) / TASK_ELEMS));
        fxi_gguf_write_data(m->w, d.dst, encoded_bytes(d.type, d.end - d.first));
    }
}

//
// Keys
//

static void write_model_keys(const model_maker *m)
{
    const options *o = &m->o;
    const char *arch = o->n_lora ? "deepseek2" : "llama";
    const int row = o->n_lora + n_rot(o), head = o->head_dim ? head_dim(o) : 0;
    char key[96];
    const struct {
        const char *key;
        int v;
    } numbers[] = {
        {"block_count", o->n_layer},
        {"context_length", o->n_ctx},
        {"embedding_length", o->dim},
        {"feed_forward_length", o->n_ffn},
        {"attention.head_count", o->n_head},
        {"attention.head_count_kv", o->n_lora ? 1 : o->n_kv_head},
        {"rope.dimension_count", n_rot(o)},
        {"vocab_size", o->n_vocab},
        {"attention.key_length", o->n_lora ? row : head},
        {"attention.value_length", o->n_lora ? o->n_lora : head},
        {"attention.kv_lora_rank", o->n_lora},
        {"attention.key_length_mla", o->n_lora ? head_dim(o) + n_rot(o) : 0},
        {"attention.value_length_mla", o->n_lora ? head_dim(o) : 0},
        {"expert_count", o->n_expert},
        {"expert_used_count", o->n_expert ? o->n_used : 0},
    };
    fxi_gguf_write_str(m->w, "general.architecture", arch);
    fxi_gguf_write_str(m->w, "general.name", "random weights");
    fxi_gguf_write_u32(m->w, "general.file_type", m->mix->file_type);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, numbers[i].key);
        if (numbers[i].v) fxi_gguf_write_u32(m->w, key, (uint32_t)numbers[i].v);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
    fxi_gguf_write_f32(m->w, key, 1e-5f);
    snprintf(key, sizeof key, "%s.rope.freq_base", arch);
    fxi_gguf_write_f32(m->w, key, 10000);
}

static fx_status write_keys(const model_maker *m, fx_error *err)
{
    made_vocab v;
    if (!made_vocab_create((size_t)m->o.n_vocab, &v))
        return fxi_fail(err, FX_ENOMEM, "no memory for the vocabulary");
    write_model_keys(m);
    fxi_gguf_write_str(m->w, "tokenizer.ggml.model", "llama");
    fxi_gguf_begin_strs(m->w, "tokenizer.ggml.tokens", v.n);
    for (size_t i = 0; i < v.n; i++) fxi_gguf_put_str(m->w, v.piece[i]);
    fxi_gguf_write_array(m->w, "tokenizer.ggml.scores", FXI_GGUF_F32, v.score, v.n);
    fxi_gguf_write_array(m->w, "tokenizer.ggml.token_type", FXI_GGUF_I32, v.type, v.n);
    fxi_gguf_write_u32(m->w, "tokenizer.ggml.unknown_token_id", MADE_UNK);
    fxi_gguf_write_u32(m->w, "tokenizer.ggml.bos_token_id", MADE_BOS);
    fxi_gguf_write_u32(m->w, "tokenizer.ggml.eos_token_id", MADE_EOS);
    fxi_gguf_write_bool(m->w, "tokenizer.ggml.add_bos_token", true);
    made_vocab_free(&v);
    return FX_OK;
}

//
// The program
//

static fx_status check_options(model_maker *m, const fxi_opt_rest *rest, fx_error *err)
{
    const options *o = &m->o;
    if (rest->n) return fxi_fail(err, FX_EINVAL, "'%.60s' is not an option", rest->arg[0]);
    if (!o->path) return fxi_fail(err, FX_EINVAL, "-o FILE is missing");
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++)
        if (!strcasecmp(mixes[i].name, o->type)) m->mix = &mixes[i];
    if (!m->mix) return fxi_fail(err, FX_EINVAL, "--type: '%.60s' is none of " TYPE_NAMES, o->type);
    if ((!o->head_dim && o->dim % o->n_head) || head_dim(o) % 2)
        return fxi_fail(err, FX_EINVAL, "--dim %d does not give %d --heads of an even width",
                        o->dim, o->n_head);
    if (o->n_expert && o->n_used > o->n_expert)
        return fxi_fail(err, FX_EINVAL, "--experts-used %d are more than --experts %d", o->n_used,
                        o->n_expert);
    if (o->n_head % o->n_kv_head)
        return fxi_fail(err, FX_EINVAL, "--kv-heads %d does not divide --heads %d", o->n_kv_head,
                        o->n_head);
    int block_elems = (int)fxi_dtype_find(m->mix->type)->block_elems;
    bool falls_back = block_elems > FXI_Q8_0_ELEMS;
    const bool fits = o->dim % block_elems == 0 && o->n_ffn % block_elems == 0 &&
                      head_dim(o) * o->n_head % block_elems == 0;
    if (!falls_back && !fits)
        return fxi_fail(err, FX_EINVAL, "--type %s wants --dim and --ffn in multiples of %d",
                        o->type, block_elems);
    return FX_OK;
}

static fx_status write_file(model_maker *m, fx_error *err)
{
    FX_TRY(fxi_gguf_writer_open(m->o.path, &m->w, err));
    fx_status st = write_keys(m, err);
    if (st == FX_OK) {
        visit_tensors(m, declare_tensor);
        fxi_gguf_begin_data(m->w);
        visit_tensors(m, write_tensor);
    }
    fx_status end = fxi_gguf_writer_finish(m->w, st == FX_OK ? err : NULL);
    return st == FX_OK ? end : st;
}

static fx_status make_model(model_maker *m, fx_error *err)
{
    const int n_core = fxi_usable_cores();
    FX_TRY(fxi_pool_create(n_core < MAX_THREADS ? n_core : MAX_THREADS, &m->pool, err));
    m->batch = malloc(BATCH_ELEMS * sizeof(float));
    fx_status st = m->batch ? write_file(m, err) : fxi_fail(err, FX_ENOMEM, "no memory");
    free(m->batch);
    fxi_pool_destroy(m->pool);
    return st;
}

static int print_help(void)
{
    fxi_buf help = {0};
    if (!fxi_opt_help(&opt_table, 1, &help)) return 1;
    printf("make_model -o FILE [options]: writes a model with random weights as GGUF\n\n%s\n",
           help.p);
    fputs(
        "TYPE is " TYPE_NAMES ".\n"
        "q4_k_m and q5_k_m are q4_k and q5_k with q6_k for the output matrix, and for attn_v and\n"
        "ffn_down in the first and last eighth of the blocks and every third one between.\n"
        "With types that end in _k or _k_m, matrices whose rows are not a multiple of 256 are\n"
        "stored as q8_0, or as f16 if they are not a multiple of 32 either.\n",
        stdout);
    fxi_buf_free(&help);
    return 0;
}

static int print_error(const fx_error *err, int exit_status)
{
    fprintf(stderr, "make_model: %s%s\n", err->text, exit_status == 2 ? " (see --help)" : "");
    return exit_status;
}

int main(int argc, char **argv)
{
    model_maker m = {0};
    fx_error err;
    fxi_opt_rest rest;
    if (fxi_opt_parse(&opt_table, 1, argc - 1, argv + 1, &m.o, &rest, &err) != FX_OK)
        return print_error(&err, 2);
    if (rest.help) return print_help();
    if (check_options(&m, &rest, &err) != FX_OK) return print_error(&err, 2);
    return make_model(&m, &err) == FX_OK ? 0 : print_error(&err, 1);
}
