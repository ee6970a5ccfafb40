// hf_family.h - the families of Hugging Face folders: one row each says what config.json and the
// tensors of a model_type are called in GGUF.
//
// GGUF's names and meanings, as llama.cpp writes them, are the one vocabulary of this program. What
// most families share is in two common tables; a family adds rows of its own, which come first.
#ifndef FXI_FORMAT_HF_FAMILY_H
#define FXI_FORMAT_HF_FAMILY_H

#include <stdbool.h>
#include <stddef.h>

// What becomes of a tensor's rows (hf_recipe.h).
typedef enum fxi_hf_how {
    FXI_HF_SAME,
    FXI_HF_FLAT,      // [1, n] to [n]
    FXI_HF_STACK,     // of experts '@': [n_expert][..]
    FXI_HF_TRANSPOSE, // [n_in][n_out]
    FXI_HF_QKV,       // q, k, v of each group of heads together
    FXI_HF_FROM_2,    // without the first two rows
    FXI_HF_EVEN,      // every other row; of a bias, every other number
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
} fxi_hf_flag;

typedef enum fxi_hf_window { // layers that see a window, where layer_types does not say
    FXI_HF_NO_WINDOW,        // sliding_window is not used
    FXI_HF_EVERY,
    FXI_HF_FROM_LAYER, // from max_window_layers on, if use_sliding_window
    FXI_HF_PATTERN,    // all but every sliding_window_pattern-th; the architecture's default
} fxi_hf_window;

typedef struct fxi_hf_family {
    const char *model_type, *arch;
    unsigned flags;
    const char *act; // the architecture's activation, in config.json's words; NULL: not checked
    fxi_hf_window window;
    const fxi_hf_name *names;      // ends with from = NULL; NULL: none
    const fxi_hf_key *keys;        // the same
    const fxi_hf_neutral *neutral; // the same
} fxi_hf_family;

const fxi_hf_family *fxi_hf_family_find(const char *model_type); // NULL: not one we read
// The model_type of row i, for errors; NULL: there are only i.
const char *fxi_hf_family_name(size_t i);

// The rows that all families share; end with from = NULL.
extern const fxi_hf_name fxi_hf_common_names[];
extern const fxi_hf_key fxi_hf_common_keys[];
extern const fxi_hf_neutral fxi_hf_common_neutral[];
// What names may begin with; ends with NULL.
extern const char *const fxi_hf_prefixes[];

#endif
