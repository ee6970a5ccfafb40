// vocab_marks.c - norm steps that look at one character at a time: each becomes some characters or
// none.
#include <utf8proc.h>

#include "base/text/utf8.h"
#include "format/vocab/encode/norm/vocab_norm.h"
#include "format/vocab/lookup/vocab_chars.h"

static bool add_cp(fxi_buf *out, int32_t cp)
{
    utf8proc_uint8_t bytes[4];
    return fxi_buf_add(out, bytes, (size_t)utf8proc_encode_char(cp, bytes));
}

// As in Rust, which published tokenizers use: one letter's lower case is two letters.
static bool put_lower(int32_t cp, fxi_buf *out)
{
    return cp == 0x130 ? fxi_buf_str(out, "i\xCC\x87") : add_cp(out, utf8proc_tolower(cp));
}

static bool put_no_mark(int32_t cp, fxi_buf *out)
{
    const utf8proc_category_t of = utf8proc_category(cp);
    return of == UTF8PROC_CATEGORY_MN || of == UTF8PROC_CATEGORY_MC || of == UTF8PROC_CATEGORY_ME ||
           add_cp(out, cp);
}

static bool put_no_mn(int32_t cp, fxi_buf *out)
{
    return utf8proc_category(cp) == UTF8PROC_CATEGORY_MN || add_cp(out, cp);
}

// Line ends and tabs are white space here, all other characters of category C that are assigned are
// dropped.
static bool put_clean(int32_t cp, fxi_buf *out)
{
    static const bool other[UTF8PROC_CATEGORY_CO + 1] = {
        [UTF8PROC_CATEGORY_CC] = true,
        [UTF8PROC_CATEGORY_CF] = true,
        [UTF8PROC_CATEGORY_CO] = true,
    };
    if (cp == '\t' || cp == '\n' || cp == '\r') return add_cp(out, ' ');
    if (cp == 0xFFFD || other[utf8proc_category(cp)]) return true;
    return add_cp(out, fxi_cp_is_space(cp) ? ' ' : cp);
}

// The blocks of CJK ideographs that BERT's tokenizer knows; its last but two begins late.
static bool is_ideograph(int32_t cp)
{
    static const struct {
        int32_t first, last;
    } blocks[] = {
        {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
        {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F},
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (cp >= blocks[i].first && cp <= blocks[i].last) return true;
    return false;
}

static bool put_padded(int32_t cp, fxi_buf *out)
{
    if (cp < 0x3400 || !is_ideograph(cp)) return add_cp(out, cp);
    return fxi_buf_str(out, " ") && add_cp(out, cp) && fxi_buf_str(out, " ");
}

// ASCII has neither marks nor ideographs, so most of it is copied at once. Appends as much of it as
// can be, and returns the bytes.
static size_t put_ascii(fxi_norm_kind kind, fxi_str text, fxi_buf *out, bool *ok)
{
    size_t n = fxi_utf8_ascii(text.p, text.n), i = 0;
    if (kind == FXI_NORM_CLEAN) {
        while (i < n && text.p[i] >= ' ' && text.p[i] != 0x7F) i++;
        n = i;
    }
    *ok = !n || fxi_buf_add(out, text.p, n);
    if (kind != FXI_NORM_LOWERCASE || !*ok) return n;
    for (char *p = out->p + out->n - n; p < out->p + out->n; p++)
        if (*p >= 'A' && *p <= 'Z') *p = (char)(*p + ('a' - 'A'));
    return n;
}

bool fxi_norm_chars(fxi_norm_kind kind, fxi_str text, fxi_buf *out)
{
    static bool (*const puts[FXI_NORM_N_KIND])(int32_t cp, fxi_buf * out) = {
        [FXI_NORM_LOWERCASE] = put_lower, [FXI_NORM_STRIP_ACCENTS] = put_no_mark,
        [FXI_NORM_STRIP_MN] = put_no_mn,  [FXI_NORM_CLEAN] = put_clean,
        [FXI_NORM_PAD_HAN] = put_padded,
    };
    bool ok = fxi_buf_reserve(out, text.n);
    for (size_t i = 0, len; ok && i < text.n; i += len) {
        const fxi_str rest = {text.p + i, text.n - i};
        len = put_ascii(kind, rest, out, &ok);
        if (!len && ok) ok = puts[kind](fxi_utf8_at(rest.p, rest.n, &len), out);
    }
    return ok;
}
