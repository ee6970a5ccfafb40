// json_out.h - JSON text, written straight into a buffer. Both return false when memory is short.
#ifndef FXI_SERVER_JSON_OUT_H
#define FXI_SERVER_JSON_OUT_H

#include "base/text/buf.h"

// Appends a quoted string. Bytes that are not UTF-8 become U+FFFD, so the output always parses.
bool fxi_json_str(fxi_buf *b, const char *s, size_t n_bytes);
bool fxi_json_cstr(fxi_buf *b, const char *s); // NULL: null

#endif
