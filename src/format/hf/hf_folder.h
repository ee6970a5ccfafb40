// hf_folder.h - a Hugging Face folder while it is translated. Calls go down this list: hf_open.c
// (the whole), hf_keys.c (keys of config.json), hf_plan.c (tensors), hf_family.c (tables, names).
#ifndef FXI_FORMAT_HF_FOLDER_H
#define FXI_FORMAT_HF_FOLDER_H

#include <stdio.h>

#include "format/gguf_write.h"
#include "format/hf/hf_family.h"
#include "format/hf/hf_files.h"
#include "format/hf/hf_recipe.h"

typedef struct fxi_folder {
    const char *path;
    fxi_config whole;  // config.json
    fxi_config config; // the part about text, or the whole
    fxi_hf_files files;
    const fxi_hf_family *family;
    uint32_t n_layer, dim, n_head, n_kv_head, head_dim, n_expert, ctx_tok;
    bool tied;          // the output is the embedding
    fxi_recipe *recipe; // [n_recipe]
    size_t n_recipe, cap_recipe;
    fxi_gguf_writer *w;
    fx_error *err;
} fxi_folder;

#define FXI_HF_KEY_BYTES 96
// "ARCH.name" of the family.
static inline const char *fxi_hf_arch_key(const fxi_folder *f, const char *name,
                                          char out[FXI_HF_KEY_BYTES])
{
    snprintf(out, FXI_HF_KEY_BYTES, "%s.%s", f->family->arch, name);
    return out;
}

// ---- hf_family.c --------------------------------------------------------------------------------

typedef struct fxi_hf_match {
    fxi_hf_how how;
    char to[96];           // the GGUF name
    uint32_t layer, index; // '#' and '@'
} fxi_hf_match;

enum { FXI_HF_MAX_MATCH = 2 };
// The rows that a tensor's name fits: their number; 0: no row does.
int fxi_hf_match_name(const fxi_hf_family *family, const char *name,
                      fxi_hf_match out[FXI_HF_MAX_MATCH]);
// Adds the members that config.json may leave out. Errors: FX_ENOMEM.
fx_status fxi_hf_add_defaults(fxi_folder *f);

// ---- hf_plan.c ----------------------------------------------------------------------------------

// Fills `recipe` with what the folder's tensors become. Errors: FX_EFORMAT (names the tensor),
// FX_ENOMEM.
fx_status fxi_hf_plan_tensors(fxi_folder *f);
// Adds a vector that is computed here; takes over `values`, on errors too.
fx_status fxi_hf_plan_vector(fxi_folder *f, const char *name, float *values, uint64_t n);
void fxi_hf_free_recipes(fxi_folder *f);

// ---- hf_keys.c ----------------------------------------------------------------------------------

// Sets the numbers above, then writes the keys of config.json.
fx_status fxi_hf_read_numbers(fxi_folder *f);
fx_status fxi_hf_write_keys(fxi_folder *f);

#endif
