// vocab_bert.c - the steps of BERT's models: what they do to a text, and how they cut it.
#include "format/vocab/spec/vocab_spec.h"

bool fxi_spec_add_bert_norms(fxi_vocab_spec *s, fxi_bert how)
{
    const struct {
        bool wanted;
        fxi_norm_kind kind;
    } steps[] = {
        {how.cleans, FXI_NORM_CLEAN},     {how.pads_han, FXI_NORM_PAD_HAN},
        {how.strips, FXI_NORM_NFD},       {how.strips, FXI_NORM_STRIP_MN},
        {how.lowers, FXI_NORM_LOWERCASE},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (steps[i].wanted && !fxi_spec_add_norm(s, (fxi_norm){.kind = steps[i].kind}))
            return false;
    return true;
}

bool fxi_spec_add_bert_splits(fxi_vocab_spec *s)
{
    const fxi_split spaces = {.pattern = fxi_str_of("\\p{White_Space}"), .how = FXI_SPLIT_REMOVED},
                    marks = {.pattern = fxi_str_of("[!-/:-@\\[-`{-~\\p{P}]")};
    return fxi_spec_add_split(s, spaces) && fxi_spec_add_split(s, marks);
}

bool fxi_spec_add_bert(fxi_vocab_spec *s, fxi_bert how)
{
    return fxi_spec_add_bert_norms(s, how) && fxi_spec_add_bert_splits(s);
}
