// json_write.h - JSON text, written straight into a buffer. All return false when memory is short.
#ifndef FXI_BASE_JSON_WRITE_H
#define FXI_BASE_JSON_WRITE_H

#include "base/text/buf.h"

// Appends a quoted string. Bytes that are not UTF-8 become U+FFFD, so the output always parses.
bool fxi_json_str(fxi_buf *b, const char *s, size_t n_bytes);
bool fxi_json_cstr(fxi_buf *b, const char *s); // NULL: null
// Appends a number that reads back as the same float, always with a fraction or an exponent.
// Infinities, which JSON does not have, become -9999.0 and 9999.0, and NaN null.
bool fxi_json_float(fxi_buf *b, float v);

#endif
