// vocab_chars.h - properties of characters, by Unicode.
#ifndef FXI_FORMAT_VOCAB_CHARS_H
#define FXI_FORMAT_VOCAB_CHARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool fxi_cp_is_space(int32_t cp); // property White_Space
bool fxi_cp_is_word(int32_t cp);  // a letter, mark, number or connector

// The character that ends at s[n - 1], and its length. Pre: s[0..n) is valid UTF-8, n > 0.
int32_t fxi_cp_before(const char *s, size_t n, size_t *n_bytes);

#endif
