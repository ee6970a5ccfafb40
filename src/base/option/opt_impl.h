// opt_impl.h - what the files of this shelf share.
#ifndef FXI_BASE_OPT_IMPL_H
#define FXI_BASE_OPT_IMPL_H

#include "base/option/opt.h"

enum { FXI_OPT_MAX_NAME = 32, FXI_OPT_WHERE_BYTES = 160 };

// opt.c: rows of the commands in the bits of `command`; NULL: none.
const fxi_opt *fxi_opt_find(const fxi_opt_table *t, unsigned command, const char *name, size_t n);
// The name most similar to a mistyped one; NULL: none is similar.
const char *fxi_opt_nearest(const fxi_opt_table *t, unsigned command, const char *name, size_t n);

// opt_text.c: "FILE:LINE: KEY"; the command of a section, 0: none; whether every entry is known.
void fxi_opt_file_where(const fxi_opt_file *f, const fxi_opt_entry *e,
                        char where[FXI_OPT_WHERE_BYTES]);
unsigned fxi_opt_section_bit(const fxi_opt_table *t, const char *section);
fx_status fxi_opt_file_check(const fxi_opt_file *f, const fxi_opt_table *t, fx_error *err);

#endif
