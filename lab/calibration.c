// calibration.c - two figures say how fast a pass is: the fastest prompt gives the operations per
// second, and decoding one sequence with the shortest context the bytes per second. Both count the
// weights as 16-bit numbers, as replays do; what a type of fewer bits gains is in the figures.
#include "lab/lab.h"

#include "base/json/json_doc.h"
#include "base/system/mapping.h"

#include <stdio.h>

// What the host's calls cost, a thousandth of a forward pass here: docs/embed/libvtensor.md, "In
// time".
static const fxi_memory_costs host_costs = {.reserve_us = 5,
                                            .create_us = 1,
                                            .map_us = 2,
                                            .protect_us = 2,
                                            .unmap_us = 2,
                                            .copy_us_per_gb = 2e5,
                                            .swap_us_per_gb = 1e6};

static double json_number_of(const json_t *o, const char *name)
{
    return json_number_value(json_object_get(o, name));
}

static fx_status read_geometry(const json_t *m, fxi_calibration *c)
{
    fxi_geometry *g = &c->geometry;
    snprintf(c->name, sizeof c->name, "%s", json_string_value(json_object_get(m, "name")));
    *g = (fxi_geometry){.name = c->name,
                        .n_layer = (int)json_number_of(m, "n_layer"),
                        .dim = (int)json_number_of(m, "dim"),
                        .n_head = (int)json_number_of(m, "n_head"),
                        .n_kv_head = (int)json_number_of(m, "n_kv_head"),
                        .head_dim = (int)json_number_of(m, "head_dim"),
                        .n_param = json_number_of(m, "n_param"),
                        .ctx_tok = (int)json_number_of(m, "ctx_tok")};
    const bool is_whole = g->n_layer > 0 && g->dim > 0 && g->n_head > 0 && g->n_kv_head > 0 &&
                          g->head_dim > 0 && g->n_param > 0 && g->ctx_tok > 0;
    return is_whole ? FX_OK : FX_EFORMAT;
}

static double fastest_prompt_tok_s(const json_t *rows)
{
    double most = 0;
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i, row) if (json_number_of(row, "tokens_per_s") > most) most =
        json_number_of(row, "tokens_per_s");
    return most;
}

// The row of one sequence with the shortest context; NULL: there is none.
static const json_t *lone_decode(const json_t *rows)
{
    const json_t *row, *found = NULL;
    size_t i;
    json_array_foreach(rows, i, row) if (json_number_of(row, "batch") == 1 &&
                                         (!found || json_number_of(row, "mean_context") <
                                                        json_number_of(found, "mean_context")))
        found = row;
    return found;
}

static fx_status read_speed(const json_t *all, fxi_calibration *c)
{
    const double prompt_tok_s = fastest_prompt_tok_s(json_object_get(all, "prompt"));
    const json_t *decode = lone_decode(json_object_get(all, "decode"));
    const double tok_s = decode ? json_number_of(decode, "tokens_per_s") : 0;
    if (prompt_tok_s <= 0 || tok_s <= 0) return FX_EFORMAT;
    const fxi_geometry *g = &c->geometry;
    const double row_bytes = 2.0 * g->n_layer * (double)fxi_geometry_row_bytes(g);
    const double pass_bytes = 2 * g->n_param + json_number_of(decode, "mean_context") * row_bytes;
    c->device = (fxi_simulated_device){.name = "this machine",
                                       .tflops = 2 * g->n_param * prompt_tok_s / 1e12,
                                       .read_gb_s = pass_bytes * tok_s / 1e9,
                                       .costs = host_costs};
    return FX_OK;
}

static fx_status read_calibration(const json_t *all, fxi_calibration *c)
{
    FX_TRY(read_geometry(json_object_get(all, "model"), c));
    return read_speed(all, c);
}

static fx_status parse_calibration(const char *path, const fxi_mapping *m, fxi_calibration *out,
                                   fx_error *err)
{
    fxi_json_doc doc = {0};
    json_error_t e;
    fxi_json_status parsed =
        fxi_json_doc_parse(&doc, (const char *)m->data, m->size_bytes, 0, NULL, &e);
    fx_status st = FX_OK;
    if (parsed == FXI_JSON_NO_MEMORY)
        st = fxi_fail(err, FX_ENOMEM, "%s: out of memory", path);
    else if (parsed != FXI_JSON_OK)
        st = fxi_fail(err, FX_EFORMAT, "%s:%d: %s", path, e.line, e.text);
    else if (read_calibration(doc.root, out) != FX_OK)
        st = fxi_fail(err, FX_EFORMAT,
                      "%s: not what 'flexinfer bench --json' writes for a batch of 1", path);
    fxi_json_doc_free(&doc);
    return st;
}

fx_status fxi_calibration_read(const char *path, fxi_calibration *out, fx_error *err)
{
    fxi_mapping m = {0};
    *out = (fxi_calibration){0};
    FX_TRY(fxi_mapping_open(path, &m, err));
    fx_status st = parse_calibration(path, &m, out, err);
    fxi_mapping_close(&m);
    return st;
}
