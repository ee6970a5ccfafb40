// tool_parts.h - what the files share that turn a request's tools into a grammar for its answer:
// parts in an arena, marks, the arguments of a call.
#ifndef FXI_SERVER_TOOL_PARTS_H
#define FXI_SERVER_TOOL_PARTS_H

#include "base/system/arena.h"
#include "server/request/api_fields.h"

typedef struct fxi_tool_builder {
    const fxi_params *par;
    const fx_engine *eng;
    const fxi_call_format *calls;       // NULL: none can be made
    const fxi_reason_format *reasoning; // NULL: none
    bool opened;                        // the prompt has opened the reasoning
    fxi_arena arena;                    // of parts and their texts
    bool no_memory;                     // some of them are missing
} fxi_tool_builder;

typedef struct fxi_part_list { // all zero: empty; in the arena
    fx_part *part;             // [n]
    size_t n, cap;
} fxi_part_list;

// ---- tool_parts.c ------------------------------------------------------------------------------

void fxi_parts_add(fxi_tool_builder *b, fxi_part_list *l, fx_part p);
// Text in which marks that are control tokens become those tokens. NULL: nothing.
void fxi_parts_add_marked(fxi_tool_builder *b, fxi_part_list *l, const char *text);
// The parts one after the other; one of them. The list is not changed any more.
fx_part fxi_parts_seq(const fxi_part_list *l);
fx_part fxi_parts_alt(const fxi_part_list *l);
fx_part fxi_parts_repeat(fxi_tool_builder *b, fx_part of, uint32_t min, uint32_t max);
fx_part fxi_parts_maybe(fxi_tool_builder *b, fx_part of);
fx_part fxi_parts_text(const char *text); // NUL-terminated, lives as long as the builder
fx_part fxi_parts_regex(const char *pattern);
// Bytes for a text; NULL: no memory.
char *fxi_parts_bytes(fxi_tool_builder *b, size_t n);
// Adds the marks mark[0..max), up to a NULL, that may stand in a text: not those that begin with a
// control token.
void fxi_parts_add_spelled(fxi_tool_builder *b, fxi_part_list *l, const char *const *mark,
                           size_t max);

// ---- tool_args.c -------------------------------------------------------------------------------

// Whether the format can say every call of this tool; *why: a line about what it cannot, in a
// buffer of n bytes. `strict`: its arguments must follow its schema.
bool fxi_tool_is_sayable(const fxi_call_format *calls, const json_t *tool, bool strict, char *why,
                         size_t n);
bool fxi_tool_is_strict(const json_t *tool);
// Adds the arguments of a call, with what stands around them in a TAGS or PYTHON body.
void fxi_tool_add_args(fxi_tool_builder *b, fxi_part_list *l, const json_t *tool);

#endif
