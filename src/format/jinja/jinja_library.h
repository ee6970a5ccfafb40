// jinja_library.h - the filters, tests, methods and functions of chat templates.
//
// Filters and methods share the plain functions of jinja_strings.c; routines never call each other
// by name.
#ifndef FXI_FORMAT_JINJA_LIBRARY_H
#define FXI_FORMAT_JINJA_LIBRARY_H

#include "format/jinja/jinja_run.h"

// What published chat templates call, and what Hugging Face documents for them: docs/chat.md.
extern const fxi_jlibrary fxi_jlibrary_chat;

// Tables of it; each ends with a row without a name.
extern const fxi_jroutine fxi_jlibrary_seq_filters[]; // jinja_sequences.c
extern const fxi_jroutine fxi_jlibrary_str_methods[],
    fxi_jlibrary_dict_methods[]; // jinja_strings.c

// ---- jinja_strings.c ----------------------------------------------------------------------------

// Replaces up to `most` occurrences of `old`, from the left.
fx_status fxi_jstr_replace(fxi_jrun *r, const fxi_jstr *s, const fxi_jstr *old, const fxi_jstr *by,
                           uint64_t most, fxi_jval *out);
// As str.splitlines: strings, with or without the ends of lines.
fx_status fxi_jstr_lines(fxi_jrun *r, const fxi_jstr *s, bool keep_ends, fxi_jseq *out);
// The first character and the others in upper ('u'), lower ('l') or title case ('t').
fx_status fxi_jstr_recase(fxi_jrun *r, const fxi_jstr *s, char first, char how, fxi_jval *out);

// jinja_tojson.c
fx_status fxi_jfilter_tojson(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out);

#endif
