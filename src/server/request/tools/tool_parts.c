// tool_parts.c - parts of a grammar: lists that grow in an arena, and marks.
#include <string.h>

#include "server/request/tools/tool_parts.h"

enum { SLAB_BYTES = 16 << 10 };

static void *take_part_bytes(fxi_tool_builder *b, size_t n)
{
    void *p = fxi_arena_take(&b->arena, n, SLAB_BYTES);
    b->no_memory |= !p;
    return p;
}

void fxi_parts_add(fxi_tool_builder *b, fxi_part_list *l, fx_part p)
{
    if (l->n == l->cap) {
        const size_t cap = l->cap ? 2 * l->cap : 8;
        fx_part *more = take_part_bytes(b, cap * sizeof *more);
        if (!more) return;
        if (l->n) memcpy(more, l->part, l->n * sizeof *more);
        l->part = more;
        l->cap = cap;
    }
    l->part[l->n++] = p;
}

fx_part fxi_parts_text(const char *text)
{
    return (fx_part){.kind = FX_PART_TEXT, .text = text, .n_bytes = strlen(text)};
}

fx_part fxi_parts_regex(const char *pattern)
{
    return (fx_part){.kind = FX_PART_REGEX, .text = pattern, .n_bytes = strlen(pattern)};
}

fx_part fxi_parts_seq(const fxi_part_list *l)
{
    return (fx_part){.kind = FX_PART_SEQ, .part = l->part, .n_part = l->n};
}

fx_part fxi_parts_alt(const fxi_part_list *l)
{
    return (fx_part){.kind = FX_PART_ALT, .part = l->part, .n_part = l->n};
}

fx_part fxi_parts_repeat(fxi_tool_builder *b, fx_part of, uint32_t min, uint32_t max)
{
    fxi_part_list l = {0};
    fxi_parts_add(b, &l, of);
    return (fx_part){.kind = FX_PART_REPEAT, .part = l.part, .n_part = l.n, .min = min, .max = max};
}

fx_part fxi_parts_maybe(fxi_tool_builder *b, fx_part of)
{
    return fxi_parts_repeat(b, of, 0, 1);
}

char *fxi_parts_bytes(fxi_tool_builder *b, size_t n)
{
    return take_part_bytes(b, n);
}

// ---- marks --------------------------------------------------------------------------------------

// The control token that `text` begins with; its bytes, or 0.
static size_t control_at(const fxi_tool_builder *b, const char *text)
{
    const fxi_formats *f = b->par->formats;
    for (size_t i = 0; f && i < f->n_mark; i++) {
        size_t n;
        const char *s = fx_token_text(b->eng, f->mark[i], &n);
        if (n && !strncmp(s, text, n)) return n;
    }
    return 0;
}

static void add_mark_piece(fxi_tool_builder *b, fxi_part_list *l, fx_part_kind kind,
                           const char *text, size_t n)
{
    if (n) fxi_parts_add(b, l, (fx_part){.kind = kind, .text = text, .n_bytes = n});
}

void fxi_parts_add_marked(fxi_tool_builder *b, fxi_part_list *l, const char *text)
{
    size_t n = 0;
    while (text && text[n]) {
        const size_t n_control = control_at(b, text + n);
        if (!n_control) {
            n++;
            continue;
        }
        add_mark_piece(b, l, FX_PART_TEXT, text, n);
        add_mark_piece(b, l, FX_PART_CONTROL, text + n, n_control);
        text += n + n_control;
        n = 0;
    }
    add_mark_piece(b, l, FX_PART_TEXT, text, n);
}

void fxi_parts_add_spelled(fxi_tool_builder *b, fxi_part_list *l, const char *const *mark,
                           size_t max)
{
    for (size_t i = 0; i < max && mark[i]; i++)
        if (!control_at(b, mark[i])) fxi_parts_add(b, l, fxi_parts_text(mark[i]));
}
