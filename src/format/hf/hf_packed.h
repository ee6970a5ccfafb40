// hf_packed.h - weights of 4 bits as GPTQ and AWQ folders hold them, in four tensors each:
//
//   NAME.qweight  codes, eight to an I32, the first in its low bits. GPTQ: [n_in / 8][n_out], along
//                 the inputs; AWQ: [n_in][n_out / 8], along the outputs, of each eight in the order
//                 0 2 4 6 1 3 5 7
//   NAME.qzeros   [n_group][n_out / 8], along the outputs; in GPTQ's first form each is less 1
//   NAME.scales   [n_group][n_out], F16
//   NAME.g_idx    [n_in], GPTQ alone: the group of each input. Absent: they follow each other
//
//   weight = scale x (code - zero)
//
// A run of 32 inputs of a group is a block of Q4_0 where zeros are 8, and of Q5_0 otherwise: codes
// and scale move over unchanged. Inputs whose groups are mixed (desc_act) do not lie in blocks:
// their weights become F16, which is what those programs multiply with.
//
// Frantar et al., GPTQ, arXiv 2210.17323; Lin et al., AWQ, arXiv 2306.00978.
#ifndef FXI_FORMAT_HF_PACKED_H
#define FXI_FORMAT_HF_PACKED_H

#include "base/number/dtype.h"
#include "format/hf/hf_files.h"

typedef struct fxi_packed_form { // what config.json says of all of them
    bool is_used, is_awq;
    int zero_less;  // what is missing in stored zeros
    uint64_t group; // inputs; 0: all
} fxi_packed_form;

typedef struct fxi_packed {
    // NAME.weight, [n_out][n_in]; its data are those of the codes, and `packed` is this.
    fxi_st_tensor weight;
    const fxi_st_tensor *codes, *zeros, *scales, *order; // order NULL: groups follow each other
    fxi_packed_form form;
    fxi_dtype type; // of the weights, the same in the whole folder
    char name[520];
} fxi_packed;

// Reads a quantization_config whose quant_method is "gptq" or "awq". Errors: FX_EFORMAT.
fx_status fxi_packed_form_read(const fxi_members *config, fxi_str method, fxi_packed_form *out);

// Replaces the parts in the folder's list of tensors by the weights they make; the caller frees
// *out, which they lie in, on errors too. Errors: FX_EFORMAT, FX_ENOMEM.
fx_status fxi_packed_find(fxi_hf_files *files, const fxi_packed_form *form, fxi_packed **out,
                          fx_error *err);

// Writes the weights of one output as numbers or blocks of `type`: Q4_0, Q5_0, F16 or F32.
void fxi_packed_row(const fxi_packed *p, uint64_t row, fxi_dtype type, void *dst);

#endif
