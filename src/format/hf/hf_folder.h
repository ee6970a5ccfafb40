// hf_folder.h - a Hugging Face folder while it is translated. Calls go down this list: hf_open.c
// (the whole), hf_keys.c (keys of config.json), hf_plan.c (tensors), hf_family.c (tables, names).
//
// The table of families has one row for each model_type: it says what config.json and the tensors
// are called in GGUF. GGUF's names and meanings, as llama.cpp writes them, are the one vocabulary
// of this program. What most families share is in two common tables; a family adds rows of its own,
// which come first.
#ifndef FXI_FORMAT_HF_FOLDER_H
#define FXI_FORMAT_HF_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "format/gguf_write.h"
#include "format/hf/hf_files.h"
#include "format/hf/hf_packed.h"
#include "format/hf/hf_recipe.h"

// ---- families -----------------------------------------------------------------------------------

// What becomes of a tensor's rows (hf_recipe.h).
typedef enum fxi_hf_how {
    FXI_HF_SAME,
    FXI_HF_FLAT,      // [1, n] to [n]
    FXI_HF_STACK,     // stacks experts '@': [n_expert][..]
    FXI_HF_TRANSPOSE, // [n_in][n_out]
    FXI_HF_QKV,       // q, k, v of each group of heads together
    FXI_HF_FROM_2,    // without the first two rows
    FXI_HF_EVEN,      // every other row; every other number of a bias
    FXI_HF_ODD,
    FXI_HF_TRANSPOSE_EVEN, // every other column of [n_in][2 n_out]
    FXI_HF_TRANSPOSE_ODD,
    FXI_HF_HALF_1, // the first half of each matrix's rows
    FXI_HF_HALF_2,
    FXI_HF_MX,      // gpt-oss's blocks and scales
    FXI_HF_MX_EVEN, // every other row
    FXI_HF_MX_ODD,
    FXI_HF_SKIP, // computed, or of no use to an answer
} fxi_hf_how;

// A tensor's name without "model." or the like and without ".weight" or ".bias", which the GGUF
// name gets too. '#' is a layer, '@' an expert.
typedef struct fxi_hf_name {
    const char *from, *to;
    fxi_hf_how how;
} fxi_hf_name;

typedef enum fxi_hf_value { FXI_HF_U32, FXI_HF_F32, FXI_HF_BOOL } fxi_hf_value;

typedef struct fxi_hf_key { // a member of config.json under a key ARCH.to
    const char *from, *to;
    fxi_hf_value value;
} fxi_hf_key;

// A member that must be absent, null, or this value: others change the result in ways that are not
// supported.
typedef struct fxi_hf_neutral {
    const char *key, *value; // "false", "true" or a text
} fxi_hf_neutral;

typedef enum fxi_hf_flag {
    FXI_HF_PAIRS = 1,      // rope by pairs in GGUF, by halves in the folder: q and k are reordered
    FXI_HF_PLUS_1 = 2,     // norms hold their weight less 1
    FXI_HF_LAYER_NORM = 4, // otherwise RMS norm
    FXI_HF_NO_ROPE = 8,
    FXI_HF_FFN_4X = 16,  // feed_forward_length is 4 x the embedding unless it is given
    FXI_HF_ENCODER = 32, // a token sees all of its text
    // Learned positions begin at 2; max_position_embeddings counts all.
    FXI_HF_FROM_POSITION_2 = 64,
    FXI_HF_SCORES = 128, // its head scores pairs of texts
    FXI_HF_DENSE = 256,  // two matrices may follow pooling, in folders of their own
} fxi_hf_flag;

typedef enum fxi_hf_window { // layers that see a window, where layer_types does not say
    FXI_HF_NO_WINDOW,        // sliding_window is not used
    FXI_HF_EVERY,
    FXI_HF_FROM_LAYER, // from max_window_layers on, if use_sliding_window
    FXI_HF_PATTERN,    // all but every sliding_window_pattern-th; the architecture's default
} fxi_hf_window;

typedef struct fxi_hf_family {
    const char *model_type, *arch;
    const char *task; // only of config.json's architectures that end so; NULL: of any
    unsigned flags;
    const char *act; // the architecture's activation, in config.json's words; NULL: not checked
    fxi_hf_window window;
    const fxi_hf_name *names;      // ends with from = NULL; NULL: none
    const fxi_hf_key *keys;        // the same
    const fxi_hf_neutral *neutral; // the same
    const char *defaults;          // members that config.json may leave out, as JSON; NULL: none
} fxi_hf_family;

// `architecture`: the first of config.json's; empty: none. NULL: not one we read
const fxi_hf_family *fxi_hf_family_find(fxi_str model_type, fxi_str architecture);
// The model_types of all rows, for errors, cut near the end of `out`.
void fxi_hf_family_list(char *out, size_t size_bytes);

// The rows that all families share; end with from = NULL.
extern const fxi_hf_key fxi_hf_common_keys[];
extern const fxi_hf_neutral fxi_hf_common_neutral[];

enum { FXI_HF_MAX_DENSE = 2 };

typedef struct fxi_folder {
    const char *path;
    fxi_config whole;      // config.json
    fxi_members config;    // the part about text, or the whole
    fxi_json_doc defaults; // what config.json may leave out
    fxi_hf_files files;
    fxi_packed *packed;                      // what the list of tensors has of them; NULL: none
    fxi_safetensors dense[FXI_HF_MAX_DENSE]; // [n_dense] of layers after pooling
    size_t n_dense;
    const fxi_hf_family *family;
    uint32_t n_layer, dim, n_head, n_kv_head, head_dim, n_expert, ctx_tok;
    bool tied;          // the output is the embedding
    fxi_recipe *recipe; // [n_recipe]
    size_t n_recipe, cap_recipe;
    fxi_gguf_writer *w;
    fx_error *err;
} fxi_folder;

#define FXI_HF_KEY_BYTES 96
// "ARCH.name" of the family, in `out`.
static inline const char *fxi_hf_arch_key(const fxi_folder *f, const char *name,
                                          char out[FXI_HF_KEY_BYTES])
{
    snprintf(out, FXI_HF_KEY_BYTES, "%s.%s", f->family->arch, name);
    return out;
}
// The same in the room of the block around it.
#define FXI_HF_ARCH_KEY(f, name) fxi_hf_arch_key((f), (name), (char[FXI_HF_KEY_BYTES]){0})

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
// Adds a matrix that is not of the model's own files.
fx_status fxi_hf_plan_matrix(fxi_folder *f, const char *name, const fxi_st_tensor *t);
// Adds a vector that is computed here; takes over `values`, on errors too.
fx_status fxi_hf_plan_vector(fxi_folder *f, const char *name, float *values, uint64_t n);
void fxi_hf_free_recipes(fxi_folder *f);

// ---- hf_keys.c ----------------------------------------------------------------------------------

// Puts together what the folder has packed and sets the numbers above; then writes the keys of
// config.json.
fx_status fxi_hf_read_numbers(fxi_folder *f);
fx_status fxi_hf_write_keys(fxi_folder *f);

#endif
