// formats.h - how the served model writes calls of tools and reasoning, and what makes it fill in.
#ifndef FXI_SERVER_FORMATS_H
#define FXI_SERVER_FORMATS_H

#include "flexinfer/flexinfer.h"
#include "server/request/api_request.h" // defines: fxi_formats, fxi_infill

// Whether these are names of formats, "auto", "none" or NULL. Errors: FX_EINVAL, with the names
// that there are.
fx_status fxi_formats_check(const char *tool_parser, const char *reasoning_parser, fx_error *err);
// Both have been checked. "auto" and NULL: by the marks in the model's chat template.
void fxi_formats_choose(fxi_formats *f, const fx_engine *eng, const char *tool_parser,
                        const char *reasoning_parser);

// The marks by which the model fills in, as its vocabulary has them; NULL: none. Static.
const fxi_infill *fxi_infill_find(const fx_engine *eng);

#endif
