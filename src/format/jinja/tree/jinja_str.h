// jinja_str.h - strings and characters: comparing, searching, cutting; nothing here allocates.
//
// Characters are code points; `at` is the byte position where one starts.
#ifndef FXI_FORMAT_JINJA_TREE_STR_H
#define FXI_FORMAT_JINJA_TREE_STR_H

#include "format/jinja/tree/jinja_value.h"

int fxi_jstr_compare(const fxi_jstr *a, const fxi_jstr *b);
bool fxi_jstr_is(const fxi_jstr *s, const char *text);
// The first occurrence of `what` in bytes from .. to of s; SIZE_MAX: none. Linear.
size_t fxi_jstr_find(const fxi_jstr *s, const fxi_jstr *what, size_t from, size_t to);
// The last one.
size_t fxi_jstr_rfind(const fxi_jstr *s, const fxi_jstr *what, size_t from, size_t to);

uint32_t fxi_jstr_char_at(const fxi_jstr *s, size_t at, size_t *n_bytes);
bool fxi_jstr_owns(const fxi_jstr *s, size_t at, size_t n); // all these bytes are the template's
size_t fxi_jstr_count_chars(const fxi_jstr *s);
size_t fxi_jstr_byte_of(const fxi_jstr *s, size_t i_char); // s->n beyond the end
// s without the characters `chars` (NULL: white space) at its ends.
fxi_jstr fxi_jstr_strip(const fxi_jstr *s, const fxi_jstr *chars, bool left, bool right);

bool fxi_jchar_is_space(uint32_t c); // as Python's str.isspace
bool fxi_jchar_is_printable(uint32_t c);
bool fxi_jchar_is_upper(uint32_t c);
bool fxi_jchar_is_lower(uint32_t c);
bool fxi_jchar_is_title(uint32_t c);

#endif
