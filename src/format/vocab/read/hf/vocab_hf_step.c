// vocab_hf_step.c - what the four kinds of steps share: a step is an object with a "type", or a
// Sequence of such objects; a table lists the supported types, any other is an error that names it.
#include "format/show.h"
#include "format/vocab/read/hf/vocab_hf.h"

// A step, or the steps of a Sequence. jansson limits the depth.
static fx_status read_step(fxi_hf *h, const json_t *step, const char *path,
                           const fxi_hf_step_table *known)
{
    fxi_str type;
    if (!step || json_is_null(step)) return FX_OK;
    if (!json_is_object(step)) return fxi_hf_fail(h, path, "not an object");
    FX_TRY(fxi_hf_need_str(h, step, path, "type", &type));
    if (fxi_str_is(type, "Sequence")) {
        const json_t *members;
        FX_TRY(fxi_hf_need_array(h, step, path, known->members, &members));
        for (size_t i = 0; i < json_array_size(members); i++)
            FX_TRY(read_step(h, json_array_get(members, i), fxi_hf_path_at(path, i).s, known));
        return FX_OK;
    }
    for (size_t i = 0; i < known->n; i++)
        if (fxi_str_is(type, known->step[i].type)) return known->step[i].read(h, step, path);
    return fxi_hf_fail(h, path, "'%s' is not supported", fxi_show_text(type.p, type.n).s);
}

fx_status fxi_hf_read_steps(fxi_hf *h, const json_t *root, const fxi_hf_step_table *known)
{
    return read_step(h, json_object_get(root, known->key), known->key, known);
}

fx_status fxi_hf_add_norm(const fxi_hf *h, fxi_norm n)
{
    return fxi_spec_add_norm(h->s, n) ? FX_OK : fxi_hf_fail_memory(h);
}

// prepend_scheme, or add_prefix_space of older files.
static fx_status read_prepend_scheme(const fxi_hf *h, const json_t *step, const char *path,
                                     fxi_str *scheme)
{
    bool space;
    FX_TRY(fxi_hf_get_str(h, step, path, "prepend_scheme", scheme));
    FX_TRY(fxi_hf_get_bool(h, step, path, "add_prefix_space", true, &space));
    if (!scheme->p) *scheme = space ? fxi_str_of("always") : fxi_str_of("never");
    if (fxi_str_is(*scheme, "always") || fxi_str_is(*scheme, "first") ||
        fxi_str_is(*scheme, "never"))
        return FX_OK;
    return fxi_hf_fail(h, fxi_hf_path_key(path, "prepend_scheme").s, "'%s' is not supported",
                       fxi_show_text(scheme->p, scheme->n).s);
}

fx_status fxi_hf_read_metaspace(const fxi_hf *h, const json_t *step, const char *path,
                                fxi_str *scheme)
{
    fxi_str mark;
    FX_TRY(fxi_hf_need_str(h, step, path, "replacement", &mark));
    if (!fxi_str_is(mark, FXI_SPACE_MARK))
        return fxi_hf_fail(h, fxi_hf_path_key(path, "replacement").s,
                           "'%s' is not supported, only U+2581", fxi_show_text(mark.p, mark.n).s);
    return read_prepend_scheme(h, step, path, scheme);
}
