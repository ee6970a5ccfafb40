// vocab_chars.c - properties of characters, by Unicode.
#include "format/vocab/lookup/vocab_chars.h"

#include <utf8proc.h>

#include "base/text/utf8.h"

int32_t fxi_cp_before(const char *s, size_t n, size_t *n_bytes)
{
    size_t at = n - 1, len;
    while (at && n - at < 4 && ((unsigned char)s[at] & 0xC0) == 0x80) at--;
    int32_t cp = fxi_utf8_at(s + at, n - at, &len);
    *n_bytes = n - at;
    return len == n - at ? cp : (unsigned char)s[n - 1];
}

bool fxi_cp_is_space(int32_t cp)
{
    if (cp < 0x80) return cp == ' ' || (cp >= '\t' && cp <= '\r');
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

bool fxi_cp_is_word(int32_t cp)
{
    static const bool word[] = {
        [UTF8PROC_CATEGORY_LU] = true, [UTF8PROC_CATEGORY_LL] = true,
        [UTF8PROC_CATEGORY_LT] = true, [UTF8PROC_CATEGORY_LM] = true,
        [UTF8PROC_CATEGORY_LO] = true, [UTF8PROC_CATEGORY_MN] = true,
        [UTF8PROC_CATEGORY_MC] = true, [UTF8PROC_CATEGORY_ME] = true,
        [UTF8PROC_CATEGORY_ND] = true, [UTF8PROC_CATEGORY_NL] = true,
        [UTF8PROC_CATEGORY_PC] = true, [UTF8PROC_CATEGORY_CO] = false,
    };
    if ((cp >= 0x24B6 && cp <= 0x24E9) || cp == 0x200C || cp == 0x200D) return true;
    if (cp >= 0x1F130 && cp <= 0x1F189)
        return cp <= 0x1F149 || (cp >= 0x1F150 && cp <= 0x1F169) || cp >= 0x1F170;
    return word[utf8proc_category(cp)];
}
