// test_recorded_bits.c - every model of tests/vectors gives the bits that were recorded, with every
// KV manager: a change that is to leave the numbers alone has left them alone.
//
// tests/vectors/bits.csv has a row for each model and type of cache: a hash of the last logits (or
// of the last row, of a model that embeds) after N_TOK tokens. The order of every sum is fixed
// (kernels.h), so the hashes are the same on every machine. Where an order is changed on purpose,
// FX_RECORD_BITS=FILE writes the rows anew.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "format/gguf.h"
#include "unit/model/runner.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VECTORS FX_SOURCE_DIR "/tests/vectors/"

enum { N_TOK = 60, MAX_ROWS = 1024, MAX_TEXT = 128 };

static const char *const folders[] = {VECTORS "models", VECTORS "logits", FX_SOURCE_DIR "/models"};
static const char *const kv_types[] = {"f16", "bf16", "f32", "q8_0"};

typedef struct recorded {
    char rows[MAX_ROWS][MAX_TEXT]; // "models/llama.gguf,f16,0123456789abcdef"
    int n;
} recorded;

// FNV-1a.
static uint64_t hash_bits(const float *v, int n)
{
    uint64_t h = 0xcbf29ce484222325;
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &v[i], sizeof bits);
        for (int b = 0; b < 32; b += 8) h = (h ^ (bits >> b & 0xff)) * 0x100000001b3;
    }
    return h;
}

static uint64_t run_manager(runner_model m, const char *manager)
{
    const variant v = {"recorded", 13, 2, 0, NULL, manager};
    runner r = {0};
    runner_open(&r, m, &v);
    float *out = runner_run(&r, &v, N_TOK);
    const uint64_t h = hash_bits(out, r.n_out);
    free(out);
    runner_close(&r);
    return h;
}

// The hash that all managers agree on. A model that sees its text both ways gets it in one pass.
static uint64_t hash_model(runner_model m)
{
    int n_out;
    float *plain = run_plain(m, N_TOK, &n_out);
    const uint64_t want = hash_bits(plain, n_out);
    free(plain);
    for (int i = 0; fxi_kv_manager_name(i); i++) {
        const uint64_t got = run_manager(m, fxi_kv_manager_name(i));
        if (got != want)
            fail_msg("%s, cache %s: %s has other bits", m.path, m.kv_type, fxi_kv_manager_name(i));
    }
    return want;
}

// Quantized caches need heads of whole blocks.
static bool takes_cache(runner_model m)
{
    fxi_gguf *g;
    fxi_model *shape = NULL;
    fx_error err = {0};
    if (fxi_model_file_open(m.path, &g, &err) != FX_OK) fail_msg("%s", err.text);
    const fxi_model_options opt = {.kv_type = m.kv_type};
    const bool takes = fxi_model_inspect(g, &opt, &shape, &err) == FX_OK;
    fxi_model_free(shape);
    fxi_gguf_close(g);
    return takes;
}

static void add_row(recorded *r, const char *folder, const char *name, const char *kv_type)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const runner_model m = {path, kv_type};
    if (!takes_cache(m)) return;
    const uint64_t h = hash_model(m);
    assert_true(r->n < MAX_ROWS);
    snprintf(r->rows[r->n++], MAX_TEXT, "%s/%s,%s,%016" PRIx64, strrchr(folder, '/') + 1, name,
             kv_type, h);
}

static int is_model(const struct dirent *e)
{
    const size_t n = strlen(e->d_name);
    return n > 5 && strcmp(e->d_name + n - 5, ".gguf") == 0;
}

static void add_folder(recorded *r, const char *folder)
{
    struct dirent **list;
    const int n = scandir(folder, &list, is_model, alphasort);
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        for (size_t t = 0; t < sizeof kv_types / sizeof *kv_types; t++)
            add_row(r, folder, list[i]->d_name, kv_types[t]);
        free(list[i]);
    }
    free(list);
}

static void write_rows(const recorded *r, const char *path)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("model,cache,hash\n", f);
    for (int i = 0; i < r->n; i++) fprintf(f, "%s\n", r->rows[i]);
    assert_int_equal(fclose(f), 0);
}

static void compare_rows(const recorded *r)
{
    char line[MAX_TEXT];
    FILE *f = fopen(VECTORS "bits.csv", "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    for (int i = 0; i < r->n; i++) {
        if (!fgets(line, sizeof line, f)) fail_msg("bits.csv ends before %s", r->rows[i]);
        line[strcspn(line, "\n")] = 0;
        assert_string_equal(r->rows[i], line);
    }
    assert_null(fgets(line, sizeof line, f));
    fclose(f);
}

FX_TEST(test_every_model_has_its_recorded_bits)
{
    static recorded r;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) add_folder(&r, folders[i]);
    const char *path = getenv("FX_RECORD_BITS");
    if (path)
        write_rows(&r, path);
    else
        compare_rows(&r);
}

FX_RUN(test_recorded_bits)
