// cmd_inspect.c - what a model is: header, metadata, tensors, totals, the size of a token in the KV
// cache, and whether it runs.
#include "cli/cli.h"
#include "cli/terminal/terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "format/gguf.h"
#include "format/vocab.h"

#define STR_SHOWN  60 // bytes of a string
#define ELEM_SHOWN 6  // elements of an array

// Control characters are escaped: a file must not steer the terminal. UTF-8 passes.
static void print_str(fxi_str s)
{
    size_t n = s.n;
    if (n > STR_SHOWN)
        for (n = STR_SHOWN; n > 0 && ((unsigned char)s.p[n] & 0xC0) == 0x80;)
            n--; // whole characters
    putchar('"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        bool c1 = c == 0xC2 && i + 1 < n &&
                  (unsigned char)s.p[i + 1] < 0xA0; // U+0080 .. U+009F are control characters
        if (c < 0x20 || c == 0x7F || c1)
            printf("\\x%02x", c);
        else
            putchar(c);
    }
    printf(n < s.n ? "\"... (%zu bytes)" : "\"", s.n);
}

// Names are shown in full, in columns; anything but printable ASCII is escaped.
static void print_name(fxi_str s, int width)
{
    int used = 0;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        bool plain = c >= 0x20 && c < 0x7F;
        used += plain ? printf("%c", c) : printf("\\x%02x", c);
    }
    printf("%*s", used < width ? width - used : 1, "");
}

// ---- metadata -----------------------------------------------------------------------------------

static const char *const type_name[FXI_GGUF_N_TYPE] = {
    [FXI_GGUF_U8] = "u8",       [FXI_GGUF_I8] = "i8",     [FXI_GGUF_U16] = "u16",
    [FXI_GGUF_I16] = "i16",     [FXI_GGUF_U32] = "u32",   [FXI_GGUF_I32] = "i32",
    [FXI_GGUF_F32] = "f32",     [FXI_GGUF_BOOL] = "bool", [FXI_GGUF_STR] = "str",
    [FXI_GGUF_ARRAY] = "array", [FXI_GGUF_U64] = "u64",   [FXI_GGUF_I64] = "i64",
    [FXI_GGUF_F64] = "f64",
};

static void print_scalar(const fxi_gguf_kv *kv, fxi_gguf_type type, uint64_t i,
                         const unsigned char **cursor)
{
    if (type == FXI_GGUF_STR)
        print_str(fxi_gguf_next_str(cursor));
    else if (type == FXI_GGUF_F32 || type == FXI_GGUF_F64)
        printf("%g", fxi_gguf_float_at(kv, i));
    else if (type == FXI_GGUF_BOOL)
        printf("%s", fxi_gguf_int_at(kv, i) ? "true" : "false");
    else if (type == FXI_GGUF_U64)
        printf("%" PRIu64, (uint64_t)fxi_gguf_int_at(kv, i));
    else
        printf("%" PRId64, fxi_gguf_int_at(kv, i));
}

static void print_metadata(const fxi_gguf *g)
{
    printf("\nmetadata\n");
    for (uint64_t i = 0; i < fxi_gguf_n_kv(g); i++) {
        const fxi_gguf_kv *kv = fxi_gguf_kv_at(g, i);
        const unsigned char *cursor = kv->value;
        printf("  ");
        print_name(kv->key, 42);
        printf("%-6s", type_name[kv->type]);
        if (kv->type != FXI_GGUF_ARRAY) {
            print_scalar(kv, kv->type, 0, &cursor);
            printf("\n");
            continue;
        }
        printf("%" PRIu64 " x %s: [", kv->n_elem, type_name[kv->elem_type]);
        for (uint64_t k = 0; k < kv->n_elem && k < ELEM_SHOWN; k++) {
            if (k) printf(", ");
            print_scalar(kv, kv->elem_type, k, &cursor);
        }
        printf(kv->n_elem > ELEM_SHOWN ? ", ...]\n" : "]\n");
    }
}

static void print_tensors(const fxi_gguf *g)
{
    if (fxi_gguf_n_tensor(g) == 0) return;
    printf(
        "\ntensors (numbers along each dimension, fastest first; offsets into the tensor data)\n");
    for (uint64_t i = 0; i < fxi_gguf_n_tensor(g); i++) {
        const fxi_gguf_tensor *t = fxi_gguf_tensor_at(g, i);
        char shape[96] = "";
        size_t at = 0;
        for (uint32_t d = 0; d < t->n_dim; d++)
            at += (size_t)snprintf(shape + at, sizeof shape - at, d ? " x %" PRIu64 : "%" PRIu64,
                                   t->ne[d]);
        printf("  ");
        print_name(t->name, 32);
        printf("%-8s%-20s%14" PRIu64 " bytes at %" PRIu64 "\n", t->type->name, shape, t->size_bytes,
               t->offset);
    }
}

#define MAX_TYPES 64

static void print_totals(const fxi_gguf *g)
{
    struct {
        const char *name;
        uint64_t n_tensor, bytes;
    } sum[MAX_TYPES] = {{0}};
    uint64_t n_param = 0;
    int n = 0;
    char text[FXI_SIZE_TEXT_BYTES];
    for (uint64_t i = 0; i < fxi_gguf_n_tensor(g); i++) {
        const fxi_gguf_tensor *t = fxi_gguf_tensor_at(g, i);
        int s = 0;
        n_param += t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
        while (s < n && strcmp(sum[s].name, t->type->name) != 0) s++;
        if (s == MAX_TYPES) continue;
        if (s == n) sum[n++].name = t->type->name;
        sum[s].n_tensor++;
        sum[s].bytes += t->size_bytes;
    }
    printf("\ntotals\n  parameters    %" PRIu64 " (%s)\n", n_param, fxi_cli_count(n_param, text));
    for (int i = 0; i < n; i++)
        printf("  %-14s%" PRIu64 " tensors, %s\n", sum[i].name, sum[i].n_tensor,
               fxi_cli_size(sum[i].bytes, text));
}

// ---- KV cache -----------------------------------------------------------------------------------

// "<architecture>.<key>" as a number; `otherwise` if it is absent or not a number.
static uint32_t arch_u32(const fxi_gguf *g, fxi_str arch, const char *key, uint32_t otherwise)
{
    char name[128];
    uint32_t v = otherwise;
    snprintf(name, sizeof name, "%.*s.%s", arch.n < 64 ? (int)arch.n : 64, arch.p, key);
    return fxi_gguf_u32(g, name, false, &v, NULL) == FX_OK ? v : otherwise;
}

// How many numbers a token has in a layer; *what: which these are.
static uint64_t kv_numbers(const fxi_gguf *g, fxi_str arch, char what[96])
{
    const uint32_t n_lora = arch_u32(g, arch, "attention.kv_lora_rank", 0);
    const uint32_t n_rot = arch_u32(g, arch, "rope.dimension_count", 0);
    if (n_lora) { // latent attention: one row for all heads
        snprintf(what, 96, "(%u + %u)", n_lora, n_rot);
        return (uint64_t)n_lora + n_rot;
    }
    uint32_t n_head = arch_u32(g, arch, "attention.head_count", 0);
    uint32_t n_kv = arch_u32(g, arch, "attention.head_count_kv", n_head);
    uint32_t width = arch_u32(g, arch, "embedding_length", 0);
    uint64_t k = arch_u32(g, arch, "attention.key_length", n_head ? width / n_head : 0);
    uint64_t v = arch_u32(g, arch, "attention.value_length", (uint32_t)k);
    snprintf(what, 96, "%u KV heads x (%" PRIu64 " + %" PRIu64 ")", n_kv, k, v);
    return k ? n_kv * (k + v) : 0;
}

// info: of a model that runs; NULL: it does not.
static void print_kv(const fxi_gguf *g, const fx_model_info *info)
{
    fxi_str arch = {NULL, 0};
    char what[96], text[FXI_SIZE_TEXT_BYTES];
    if (info && info->kv_state_bytes) { // layers differ in what they keep
        printf("  KV cache      %zu bytes per token in f16, and %s for each sequence\n",
               info->kv_bytes_per_tok, fxi_cli_size(info->kv_state_bytes, text));
        return;
    }
    if (fxi_gguf_str(g, "general.architecture", false, &arch, NULL) != FX_OK || !arch.n) return;
    const uint64_t n_layer = arch_u32(g, arch, "block_count", 0), n = kv_numbers(g, arch, what);
    const uint32_t n_ctx = arch_u32(g, arch, "context_length", 0);
    if (!n_layer || !n) return;
    const double bytes = (double)n_layer * (double)n * 2;
    printf("  KV cache      %.0f bytes per token in f16 (%" PRIu64 " layers x %s x 2)\n", bytes,
           n_layer, what);
    printf("                %s per 1024 tokens", fxi_cli_size((uint64_t)(bytes * 1024), text));
    if (n_ctx)
        printf(", %s for the trained context of %u",
               fxi_cli_size((uint64_t)(bytes * (double)n_ctx), text), n_ctx);
    printf("\n");
}

static void print_runs(const fx_model_info *info)
{
    char n[FXI_SIZE_TEXT_BYTES];
    printf("\nruns: %s, %s parameters, weights in %s\n", info->arch,
           fxi_cli_count(info->n_param, n), info->file_type);
    if (info->embeds)
        printf("  embeds texts of up to %d tokens: %d numbers, pooling %s\n", info->embd_tok,
               info->n_embd, info->pooling);
    if (info->scores) printf("  scores pairs of texts of up to %d tokens\n", info->embd_tok);
    if (!info->generates) printf("  generates no text\n");
}

static void print_refusal(const char *why)
{
    printf("\ndoes not run: ");
    for (const char *c = why; *c; c++) // a file's words must not steer the terminal
        if ((unsigned char)*c >= 0x20 && *c != 0x7F) putchar(*c);
    printf("\n");
}

int fxi_cmd_inspect(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    const char *path = rest->arg[0];
    char size[FXI_SIZE_TEXT_BYTES];
    struct stat file;
    fx_error err;
    fx_model_info info;
    fxi_gguf *g;
    fxi_vocab *vocab;
    (void)o;
    // A file that is cut off after its header still says what it is.
    const fx_status st = fxi_model_file_open(path, &g, &err);
    if (st != FX_OK && (st != FX_EFORMAT || fxi_gguf_open_head(path, &g, NULL) != FX_OK))
        return fxi_cli_fail("%s", err.text);
    if (!stat(path, &file) && S_ISDIR(file.st_mode))
        printf("%s\n  Hugging Face folder, shown as GGUF, ", path);
    else
        printf("%s\n  GGUF version %" PRIu32 ", ", path, fxi_gguf_version(g));
    printf("%" PRIu64 " bytes (%s), %" PRIu64 " metadata keys, %" PRIu64 " tensors\n",
           fxi_gguf_size(g), fxi_cli_size(fxi_gguf_size(g), size), fxi_gguf_n_kv(g),
           fxi_gguf_n_tensor(g));
    print_metadata(g);
    print_tensors(g);
    print_totals(g);
    const bool runs = fx_model_inspect(path, NULL, &info, &err) == FX_OK;
    print_kv(g, runs ? &info : NULL);
    if (fxi_vocab_load(g, &vocab, NULL) == FX_OK) { // if it can be read
        if (fxi_vocab_warning(vocab)) printf("\nwarning: %s\n", fxi_vocab_warning(vocab));
        fxi_vocab_free(vocab);
    }
    if (runs)
        print_runs(&info);
    else
        print_refusal(err.text);
    fxi_gguf_close(g);
    return 0;
}
