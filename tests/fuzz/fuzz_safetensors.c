// fuzz_safetensors.c - any bytes as a safetensors file: each tensor lies within the file, what
// looks like weights of GPTQ or AWQ can be made or is refused, and an error is one line.
#include <stdlib.h>
#include <string.h>

#include "format/hf/hf_packed.h"
#include "fuzz.h"

FUZZ_TARGET(fuzz_safetensors);

static void check_st_error(const fx_error *err)
{
    FUZZ_CHECK(err->status == FX_EFORMAT && !strncmp(err->text, "fuzz: ", 6));
    for (const char *c = err->text; *c; c++) FUZZ_CHECK(*c >= 0x20 && *c < 0x7F);
}

static void check_st_tensors(const fxi_safetensors *s, const uint8_t *data, size_t n_bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s->n_tensor; i++) {
        const fxi_st_tensor *t = &s->tensor[i];
        FUZZ_CHECK(t->data >= data && t->data + t->size_bytes <= data + n_bytes);
        FUZZ_CHECK(t->n_elem * t->elem_bytes == t->size_bytes && t->n_dim <= FXI_ST_MAX_DIM);
        FUZZ_CHECK(!i || s->tensor[i - 1].data + s->tensor[i - 1].size_bytes == t->data);
        sum += t->size_bytes;
    }
    FUZZ_CHECK(sum <= n_bytes - 8); // no two overlap
}

// The file's tensors as those of a folder whose config.json says so.
static void make_packed(const fxi_safetensors *s, const fxi_packed_form *form)
{
    fxi_hf_files files = {.tensor = calloc(s->n_tensor + 1, sizeof *files.tensor)};
    fxi_packed *packed;
    fx_error err = {0};
    FUZZ_CHECK(files.tensor);
    for (size_t i = 0; i < s->n_tensor; i++) files.tensor[files.n_tensor++] = &s->tensor[i];
    fxi_hf_files_sort(&files);
    const bool found = fxi_packed_find(&files, form, &packed, &err) == FX_OK;
    if (!found) check_st_error(&err);
    for (size_t i = 0; found && i < files.n_tensor; i++) {
        const fxi_st_tensor *t = files.tensor[i];
        float *row = t->packed ? malloc(t->dim[1] * sizeof *row) : NULL;
        for (uint64_t r = 0; row && r < t->dim[0]; r++) {
            fxi_packed_row(t->packed, r, t->packed->type, row);
            fxi_packed_row(t->packed, r, FXI_F32, row);
        }
        free(row);
    }
    free(packed);
    free(files.tensor);
}

int fuzz_safetensors_run(const uint8_t *data, size_t n_bytes)
{
    fxi_safetensors s;
    fx_error err = {0};
    if (fxi_safetensors_parse(data, n_bytes, "fuzz", &s, &err) == FX_OK) {
        check_st_tensors(&s, data, n_bytes);
        make_packed(&s, &(fxi_packed_form){.is_used = true, .zero_less = 1});
        make_packed(&s, &(fxi_packed_form){.is_used = true, .is_awq = true, .group = 4});
    } else {
        check_st_error(&err);
    }
    fxi_safetensors_close(&s);
    return 0;
}

bool fuzz_safetensors_seed(unsigned i, fxi_buf *out)
{
    static const char *const headers[] = {
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}, "
        "\"b\": {\"dtype\": \"BF16\", \"shape\": [2, 1], \"data_offsets\": [8, 12]}}",
        "{\"__metadata__\": {\"format\": \"pt\"}, \"x\": {\"dtype\": \"F8_E4M3\", \"shape\": [3, "
        "4], \"data_offsets\": [0, 12]}} ",
        "{\"w.qweight\": {\"dtype\": \"I32\", \"shape\": [1, 8], \"data_offsets\": [0, 32]}, "
        "\"w.qzeros\": {\"dtype\": \"I32\", \"shape\": [1, 1], \"data_offsets\": [32, 36]}, "
        "\"w.scales\": {\"dtype\": \"F16\", \"shape\": [1, 8], \"data_offsets\": [36, 52]}, "
        "\"w.g_idx\": {\"dtype\": \"I32\", \"shape\": [8], \"data_offsets\": [52, 84]}}",
        "{\"w.qweight\": {\"dtype\": \"I32\", \"shape\": [5, 1], \"data_offsets\": [0, 20]}, "
        "\"w.qzeros\": {\"dtype\": \"I32\", \"shape\": [2, 1], \"data_offsets\": [20, 28]}, "
        "\"w.scales\": {\"dtype\": \"F16\", \"shape\": [2, 8], \"data_offsets\": [28, 60]}}",
        "{\"s\": {\"dtype\": \"F64\", \"shape\": [], \"data_offsets\": [4, 12]}, "
        "\"t\": {\"dtype\": \"U8\", \"shape\": [4], \"data_offsets\": [0, 4]}}",
    };
    if (i >= sizeof headers / sizeof *headers) return false;
    static const size_t n_data[] = {12, 12, 84, 60, 12};
    const uint64_t n = strlen(headers[i]);
    const char data[84] = {1};
    return fxi_buf_add(out, &n, sizeof n) && fxi_buf_str(out, headers[i]) &&
           fxi_buf_add(out, data, n_data[i]);
}
