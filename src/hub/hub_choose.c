// hub_choose.c - which files of a repository are the model that a name asks for.
//
// A repository with GGUF files offers one of them, which may have parts; a multimodal projector is
// no model. Without a type in the name the first of `preferred` that is offered counts, whose files
// are small and close to the original, then the first file. A repository without GGUF files is a
// folder: the weights in safetensors, and every small file next to them that a loader may read.
#include "base/fail.h"
#include "hub/hub_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const preferred[] = {
    "Q4_K_M", "Q4_K_S", "Q4_K_XL", "Q5_K_M", "Q5_K_S", "Q4_1", "Q4_0", "IQ4_XS", "IQ4_NL",
    "MXFP4",  "Q5_1",   "Q5_0",    "Q6_K",   "Q8_0",   "F16",  "BF16", "F32",
};

static const char *const read_ends[] = {".json", ".jinja", ".txt", ".model", ".tiktoken"};

#define INDEX_NAME  "model.safetensors.index.json"
#define SINGLE_NAME "model.safetensors"

// ---- parts --------------------------------------------------------------------------------------

bool fxi_hub_part_read(const char *name, unsigned *no, unsigned *count, size_t *digits_at)
{
    static const char form[] = "-00001-of-00001.";
    const char *dot = strrchr(name, '.');
    if (!dot || (size_t)(dot - name) < sizeof form - 2) return false;
    const char *at = dot - (sizeof form - 2);
    for (size_t i = 0; i < sizeof form - 2; i++) {
        const bool is_digit = at[i] >= '0' && at[i] <= '9';
        if (form[i] == '0' || form[i] == '1' ? !is_digit : at[i] != form[i]) return false;
    }
    *no = (unsigned)strtoul(at + 1, NULL, 10);
    *count = (unsigned)strtoul(at + 10, NULL, 10);
    *digits_at = (size_t)(at + 1 - name);
    return *no >= 1 && *no <= *count;
}

// The first part of a file, or the file.
static bool is_first(const char *name)
{
    unsigned no, count;
    size_t at;
    return !fxi_hub_part_read(name, &no, &count, &at) || no == 1;
}

static int compare_name(const void *key, const void *file)
{
    return strcmp(key, ((const fxi_hub_file *)file)->name);
}

static bool find_file(const fxi_hub_listing *l, const char *name, size_t *at)
{
    const fxi_hub_file *f = l->n ? bsearch(name, l->file, l->n, sizeof *f, compare_name) : NULL;
    *at = f ? (size_t)(f - l->file) : l->n;
    return f;
}

// Adds a file and, after it, its other parts.
static fx_status add_whole(const fxi_hub_listing *l, size_t at, fxi_hub_choice *out, fx_error *err)
{
    unsigned no = 1, count = 1;
    size_t digits = 0;
    char name[1024];
    snprintf(name, sizeof name, "%s", l->file[at].name);
    const bool has_parts = fxi_hub_part_read(name, &no, &count, &digits);
    if (count > l->n) count = (unsigned)l->n + 1; // that many are not there
    for (unsigned i = 1; i <= count; i++) {
        if (has_parts) {
            char number[16];
            snprintf(number, sizeof number, "%05u", i);
            memcpy(name + digits, number, 5);
        }
        if (!find_file(l, name, &at) || out->n == l->n)
            return fxi_fail(err, FX_EINVAL, "the file %s is missing, a part of the model", name);
        out->at[out->n++] = at;
    }
    return FX_OK;
}

// ---- GGUF ---------------------------------------------------------------------------------------

bool fxi_hub_is_gguf(const char *name)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    const fxi_str s = fxi_str_of(base);
    return s.n > 5 && !strcasecmp(base + s.n - 5, ".gguf") && !strcasestr(base, "mmproj") &&
           is_first(name);
}

// Whether the type stands in the name, in any case, as words of their own.
static bool has_type(const char *name, fxi_str type)
{
    for (const char *p = name; strlen(p) >= type.n; p++) {
        if (strncasecmp(p, type.p, type.n) != 0) continue;
        const fxi_str before = {p - (p > name), p > name}, after = {p + type.n, p[type.n] != 0};
        if ((!before.n || !fxi_str_is_plain(before, "")) &&
            (!after.n || !fxi_str_is_plain(after, "_")))
            return true;
    }
    return false;
}

// The first file whose name has the type, if any; of several the shortest name.
static bool choose_type(const fxi_hub_listing *l, fxi_str type, size_t *at)
{
    bool found = false;
    for (size_t i = 0; i < l->n; i++) {
        const char *name = l->file[i].name;
        if (!fxi_hub_is_gguf(name) || !has_type(name, type)) continue;
        if (!found || strlen(name) < strlen(l->file[*at].name)) *at = i;
        found = true;
    }
    return found;
}

static bool choose_preferred(const fxi_hub_listing *l, size_t *at)
{
    for (size_t i = 0; i < sizeof preferred / sizeof *preferred; i++)
        if (choose_type(l, fxi_str_of(preferred[i]), at)) return true;
    for (*at = 0; *at < l->n; ++*at)
        if (fxi_hub_is_gguf(l->file[*at].name)) return true;
    return false;
}

// How many bytes all models' names begin with alike, up to a mark that ends a word.
static size_t common_bytes(const fxi_hub_listing *l)
{
    const char *first = NULL;
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) {
        const char *name = l->file[i].name;
        if (!fxi_hub_is_gguf(name)) continue;
        if (!first) n = strlen(first = name);
        for (size_t k = 0; k < n; k++)
            if (name[k] != first[k]) n = k;
    }
    while (n && !strchr("-./", first[n - 1])) n--;
    return n;
}

// Names the other models by what tells them apart, which is mostly their type.
static fx_status name_others(const fxi_hub_listing *l, size_t chosen, fxi_hub_choice *out,
                             fx_error *err)
{
    const size_t n_common = common_bytes(l);
    for (size_t i = 0; i < l->n; i++) {
        const char *name = l->file[i].name;
        unsigned no, count;
        size_t digits;
        if (i == chosen || !fxi_hub_is_gguf(name)) continue;
        size_t end = strlen(name) - (sizeof ".gguf" - 1);
        if (fxi_hub_part_read(name, &no, &count, &digits)) end = digits - 1;
        const size_t from = n_common < end ? n_common : 0;
        if (!fxi_buf_fmt(&out->others, "%s%.*s", out->others.n ? ", " : "", (int)(end - from),
                         name + from))
            return fxi_fail_memory(err);
    }
    return FX_OK;
}

// ---- a folder -----------------------------------------------------------------------------------

static bool is_read(const char *name)
{
    if (!strcmp(name, "1_Pooling/config.json")) return true;
    if (name[0] >= '0' && name[0] <= '9' && !strncmp(name + 1, "_Dense/", 7)) // of an embedding
        return !strcmp(name + 8, "config.json") || !strcmp(name + 8, SINGLE_NAME);
    if (strchr(name, '/')) return false;
    for (size_t i = 0; i < sizeof read_ends / sizeof *read_ends; i++)
        if (fxi_str_ends_in(fxi_str_of(name), read_ends[i])) return true;
    return false;
}

// With an index, the files of the same form as the single one's name and parts; others are the same
// weights once more.
static bool is_weight(const char *name, bool has_index)
{
    if (!has_index) return !strcmp(name, SINGLE_NAME);
    return fxi_str_ends_in(fxi_str_of(name), ".safetensors") && !strchr(name, '/') &&
           strcmp(name, SINGLE_NAME) != 0 && strncmp(name, "consolidated", 12) != 0;
}

static fx_status choose_folder(const fxi_hub_listing *l, const fxi_hub_name *name,
                               fxi_hub_choice *out, fx_error *err)
{
    size_t at;
    const bool has_index = find_file(l, INDEX_NAME, &at);
    out->is_folder = true;
    for (size_t i = 0; i < l->n; i++)
        if (is_read(l->file[i].name)) out->at[out->n++] = i;
    if (name->is_vocab && find_file(l, "tokenizer.json", &at)) return FX_OK;
    const size_t n_small = out->n;
    for (size_t i = 0; i < l->n; i++)
        if (is_weight(l->file[i].name, has_index) && is_first(l->file[i].name))
            FX_TRY(add_whole(l, i, out, err));
    if (out->n > n_small && find_file(l, "config.json", &at)) return FX_OK;
    return fxi_fail(err, FX_EINVAL,
                    "it holds no model that can be read: neither a GGUF file nor config.json "
                    "with " SINGLE_NAME);
}

// ---- the choice ---------------------------------------------------------------------------------

fx_status fxi_hub_choose(const fxi_hub_listing *l, const fxi_hub_name *name, fxi_hub_choice *out,
                         fx_error *err)
{
    size_t at = 0;
    *out = (fxi_hub_choice){.at = calloc(l->n + 1, sizeof *out->at)};
    if (!out->at) return fxi_fail_memory(err);
    if (name->file.n) {
        for (; at < l->n && !fxi_str_is(name->file, l->file[at].name);) at++;
        if (at == l->n)
            return fxi_fail(err, FX_EINVAL, "there is no file %.*s", (int)name->file.n,
                            name->file.p);
        return add_whole(l, at, out, err);
    }
    if (name->type.n ? !choose_type(l, name->type, &at) : !choose_preferred(l, &at)) {
        if (!name->type.n) return choose_folder(l, name, out, err);
        FX_TRY(name_others(l, l->n, out, err));
        return fxi_fail(err, FX_EINVAL, "there is no GGUF file of type %.*s; it offers %.300s",
                        (int)name->type.n, name->type.p, out->others.n ? out->others.p : "none");
    }
    FX_TRY(name_others(l, at, out, err));
    return add_whole(l, at, out, err);
}

void fxi_hub_choice_free(fxi_hub_choice *c)
{
    free(c->at);
    fxi_buf_free(&c->others);
    *c = (fxi_hub_choice){0};
}
