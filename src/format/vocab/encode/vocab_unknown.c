// vocab_unknown.c - a character that no piece spells.
#include "format/vocab/encode/vocab_encode.h"

bool fxi_encode_has_bytes(const fxi_vocab *v, const char *p, size_t n)
{
    bool all = v->byte_fallback;
    for (size_t i = 0; i < n && all; i++) all = v->byte_id[(unsigned char)p[i]] >= 0;
    return all;
}

fx_status fxi_encode_put_unknown(fxi_encode_job *j, const char *p, size_t n)
{
    const fxi_vocab *v = j->v;
    if (fxi_encode_has_bytes(v, p, n)) {
        for (size_t i = 0; i < n; i++) FX_TRY(fxi_encode_put(j, v->byte_id[(unsigned char)p[i]]));
        return FX_OK;
    }
    if (v->unk < 0) return FX_OK; // dropped, as in the library
    if (v->fuse_unknown && j->after_unknown) return FX_OK;
    FX_TRY(fxi_encode_put(j, v->unk));
    j->after_unknown = true;
    return FX_OK;
}
