// fuzz_model.c - any head of a GGUF file as a model: its keys and tensors are checked without data;
// what passes and is small is loaded with made-up weights, and runs.
#include <string.h>

#include "format/gguf/gguf_made.h"
#include "fuzz.h"
#include "model/model.h"

FUZZ_TARGET(fuzz_model);

enum { N_TOK = 3, MAX_ROW_BYTES = 1 << 16, MAX_LAYER = 16, MAX_VOCAB = 1 << 12 };

static volatile float sink; // logits are used

// ---- made-up weights ---------------------------------------------------------------------------

static const void *no_place(void *ud, uint64_t i)
{
    (void)ud, (void)i;
    return NULL;
}

// Small numbers in any type: bytes below 16 have no large exponent.
static void make_rows(void *ud, uint64_t i, uint64_t row, uint64_t n_row, void *dst)
{
    const fxi_gguf *g = *(const fxi_gguf **)ud;
    const fxi_gguf_tensor *t = fxi_gguf_tensor_at(g, i);
    const size_t row_bytes = (size_t)(t->ne[0] / t->type->block_elems * t->type->block_bytes);
    unsigned char *p = dst;
    (void)row;
    for (size_t b = 0; b < n_row * row_bytes; b++) p[b] = (unsigned char)(b * 7 % 16);
}

static void no_close(void *ud)
{
    (void)ud;
}

// ---- a pass ------------------------------------------------------------------------------------

static bool is_small(const fxi_model *m)
{
    const fxi_model_shape *s = &m->shape;
    for (int g = 0; g < s->kv.n_group; g++)
        if (s->kv.group[g].row_bytes >= MAX_ROW_BYTES) return false;
    return s->n_layer <= MAX_LAYER && s->n_vocab <= MAX_VOCAB && s->n_param < 1 << 18;
}

// The groups of planes one after the other, each with a row for each token.
static fxi_kv_views views_of(char *cache, const fxi_model_shape *s)
{
    fxi_kv_views v = {0};
    for (int g = 0; g < s->kv.n_group; g++) {
        const size_t row = s->kv.group[g].row_bytes, plane = N_TOK * row;
        v.group[g] =
            (fxi_kv_view){.base = cache, .plane_stride_bytes = plane, .tok_stride_bytes = row};
        cache += (size_t)s->kv.group[g].n_plane * plane;
    }
    return v;
}

static void run_pass(fxi_model *m)
{
    const fxi_model_shape *s = &m->shape;
    const int32_t tok[N_TOK] = {0, s->n_vocab - 1, s->n_vocab / 2};
    char *cache = calloc(N_TOK, fxi_kv_tok_bytes(&s->kv) + fxi_kv_state_bytes(&s->kv));
    const int n_out = s->generates ? s->n_vocab : s->dim;
    float *out = malloc((size_t)n_out * sizeof *out);
    FUZZ_CHECK(cache && out);
    const fxi_batch_seq seq = {
        .views = views_of(cache, s), .n_tok = N_TOK, .n_logit = 1, .embeds = !s->generates};
    const fxi_batch batch = {.token = tok, .n_tok = N_TOK, .seq = &seq, .n_seq = 1, .rows = out};
    FUZZ_CHECK(fxi_model_forward(m, &batch, out, NULL) == FX_OK);
    for (int i = 0; i < n_out; i++) sink += out[i];
    free(cache), free(out);
}

static void load_and_run(const fxi_gguf *g, fxi_model_options opt)
{
    fxi_model *m;
    fx_error err;
    FUZZ_CHECK(fxi_pool_create(1, &opt.pool, &err) == FX_OK);
    const fx_status st = fxi_model_load(g, &opt, &m, &err);
    FUZZ_CHECK(st == FX_OK || st == FX_EFORMAT); // a vector of numbers that are not finite
    if (st == FX_OK) run_pass(m);
    if (st == FX_OK) fxi_model_free(m);
    fxi_pool_destroy(opt.pool);
}

static void check_line(const fx_error *err)
{
    FUZZ_CHECK(!strncmp(err->text, "fuzz: ", 6));
    for (const char *c = err->text; *c; c++) FUZZ_CHECK(*c >= 0x20 && *c < 0x7F);
}

int fuzz_model_run(const uint8_t *data, size_t n_bytes)
{
    fxi_gguf *g = NULL;
    fxi_model *m;
    fx_error err;
    fxi_buf head = {0};
    const fxi_gguf_maker maker = {
        .ud = &g, .place = no_place, .make = make_rows, .close = no_close};
    const fxi_model_options opt = {
        .ctx_tok = 8, .max_batch_tok = N_TOK, .max_batch_logit = 1, .kernel_path = "ref"};
    if (!fxi_buf_add(&head, data, n_bytes)) return 0;
    if (fxi_gguf_present("fuzz", &head, &maker, &g, &err) != FX_OK) return 0;
    const fx_status st = fxi_model_inspect(g, &opt, &m, &err);
    FUZZ_CHECK(st == FX_OK || st == FX_EFORMAT || st == FX_EINVAL || st == FX_ENOMEM);
    if (st != FX_OK) check_line(&err);
    if (st == FX_OK) {
        if (is_small(m)) load_and_run(g, opt);
        fxi_model_free(m);
    }
    fxi_gguf_close(g);
    return 0;
}

// ---- seeds -------------------------------------------------------------------------------------

// The file's bytes up to its tensors' data.
static void add_head(const char *path, fxi_buf *out)
{
    fxi_gguf *g;
    fx_error err;
    char bytes[1 << 14];
    FUZZ_CHECK(fxi_gguf_open(path, &g, &err) == FX_OK);
    uint64_t n_data = 0;
    for (uint64_t i = 0; i < fxi_gguf_n_tensor(g); i++) {
        const fxi_gguf_tensor *t = fxi_gguf_tensor_at(g, i);
        if (t->offset + t->size_bytes > n_data) n_data = t->offset + t->size_bytes;
    }
    const size_t n_head = (size_t)(fxi_gguf_size(g) - (n_data + 31) / 32 * 32);
    FILE *f = fopen(path, "rb");
    FUZZ_CHECK(f && n_head <= sizeof bytes && fread(bytes, 1, n_head, f) == n_head);
    fclose(f);
    fxi_gguf_close(g);
    FUZZ_CHECK(fxi_buf_add(out, bytes, n_head));
}

bool fuzz_model_seed(unsigned i, fxi_buf *out)
{
    static const char *const names[] = {
        "gemma2",        "gpt-oss",    "qwen2moe",      "phi3-long", "falcon-40b", "stablelm",
        "gpt2",          "llama-yarn", "smollm3",       "olmo3",     "bert",       "nomic-bert",
        "opt-post-norm", "qwen3next",  "granitehybrid", "lfm2",      "nemotron-h"};
    char path[512];
    if (i >= sizeof names / sizeof *names) return false;
    snprintf(path, sizeof path, FX_SOURCE_DIR "/tests/vectors/models/%s.gguf", names[i]);
    add_head(path, out);
    return true;
}
