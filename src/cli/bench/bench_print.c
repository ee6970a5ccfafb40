// bench_print.c - rows as a table for people, as CSV to collect, as JSON for programs.
#include "cli/bench/bench.h"
#include "cli/terminal/terminal.h"

#include <jansson.h>
#include <stdio.h>

static double share_of_limit(const fxi_bench_row *r)
{
    return r->tok_s / r->limit_tok_s;
}

static double share_of_scaled(const fxi_bench_row *r)
{
    return r->tok_s / r->scaled_limit_tok_s;
}

static const char *limit_name(const fxi_bench_row *r)
{
    return r->by_memory ? "memory" : "arithmetic";
}

// ---- table --------------------------------------------------------------------------------------

static void print_row(const fxi_bench_row *r, int length)
{
    printf("%14d %8d %11.1f %11.1f %6.0f %% %6.0f %%  %s\n", r->batch, length, r->tok_s,
           r->limit_tok_s, 100 * share_of_limit(r), 100 * share_of_scaled(r), limit_name(r));
}

static void print_heading(const char *phase, const char *length)
{
    printf("\n%-6s %7s %8s %11s %11s %8s %8s  %s\n", phase, "batch", length, "tokens/s", "limit",
           "share", "scaled", "limited by");
}

int fxi_bench_print_table(const fxi_bench *b)
{
    const fx_model_info *m = &b->model;
    char params[FXI_SIZE_TEXT_BYTES], size[FXI_SIZE_TEXT_BYTES];
    printf("model    %s, %s, %s parameters, %s\n", m->name, m->type,
           fxi_cli_count(m->n_param, params), fxi_cli_size(m->file_bytes, size));
    printf("machine  %d threads, %s: reads %.1f GB/s, f32 FMA %.0f GFLOP/s, int8 %.0f GOP/s, "
           "%.0f scaled\n",
           m->n_thread, m->kernel_path, b->machine.read_gb_s, b->machine.fma_gflop_s,
           b->machine.int8_gop_s, b->machine.int8_scaled_gop_s);
    printf("run      %d tokens generated after each prompt, median of %d, flexinfer %s\n",
           b->o->n_gen, b->o->n_repeat, fx_version());
    print_heading("prompt", "tokens");
    for (int i = 0; i < b->n_prompt; i++) print_row(&b->prompt_row[i], b->prompt_row[i].n_tok);
    print_heading("decode", "context");
    for (int i = 0; i < b->n_decode; i++) print_row(&b->decode_row[i], b->decode_row[i].context);
    return 0;
}

// ---- CSV ----------------------------------------------------------------------------------------

static void print_quoted(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"') putchar('"');
        putchar((unsigned char)*text < ' ' ? ' ' : *text);
    }
    putchar('"');
}

static void print_csv_row(const fxi_bench *b, const char *phase, const fxi_bench_row *r)
{
    printf("%s,%d,%d,%d,%.6g,%.6g,%.6g,%.6g,%s,", phase, r->batch, r->n_tok, r->context, r->tok_s,
           r->limit_tok_s, share_of_limit(r), share_of_scaled(r), limit_name(r));
    printf("%.6g,%.6g,%.6g,%.6g,%d,%s,", b->machine.read_gb_s, b->machine.fma_gflop_s,
           b->machine.int8_gop_s, b->machine.int8_scaled_gop_s, b->model.n_thread,
           b->model.kernel_path);
    print_quoted(b->model.name);
    printf(",%s,%s\n", b->model.type, fx_version());
}

int fxi_bench_print_csv(const fxi_bench *b)
{
    printf("phase,batch,tokens,context,tokens_per_s,limit_tokens_per_s,share_of_limit,"
           "share_of_scaled_limit,limited_by,read_gbps,fp32_gflops,int8_gops,int8_scaled_gops,"
           "threads,kernel_path,model,type,version\n");
    for (int i = 0; i < b->n_prompt; i++) print_csv_row(b, "prompt", &b->prompt_row[i]);
    for (int i = 0; i < b->n_decode; i++) print_csv_row(b, "decode", &b->decode_row[i]);
    return 0;
}

// ---- JSON ---------------------------------------------------------------------------------------

static json_t *row_json(const fxi_bench_row *r)
{
    return json_pack("{s:i, s:i, s:f, s:f, s:f, s:f, s:s}", "batch", r->batch, "tokens", r->n_tok,
                     "tokens_per_s", r->tok_s, "share_of_limit", share_of_limit(r),
                     "share_of_scaled_limit", share_of_scaled(r), "limit_tokens_per_s",
                     r->limit_tok_s, "limited_by", limit_name(r));
}

static json_t *prompt_json(const fxi_bench *b)
{
    json_t *rows = json_array();
    for (int i = 0; i < b->n_prompt; i++) json_array_append_new(rows, row_json(&b->prompt_row[i]));
    return rows;
}

static json_t *decode_json(const fxi_bench *b)
{
    json_t *rows = json_array();
    for (int i = 0; i < b->n_decode; i++) {
        json_t *row = row_json(&b->decode_row[i]);
        json_object_set_new(row, "context", json_integer(b->decode_row[i].context));
        json_object_set_new(row, "mean_context", json_real(b->decode_row[i].mean_ctx));
        json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *machine_json(const fxi_bench *b)
{
    const fx_machine *m = &b->machine;
    return json_pack("{s:f, s:f, s:f, s:f, s:i, s:s}", "read_gbps", m->read_gb_s, "fp32_gflops",
                     m->fma_gflop_s, "int8_gops", m->int8_gop_s, "int8_scaled_gops",
                     m->int8_scaled_gop_s, "threads", b->model.n_thread, "kernel_path",
                     b->model.kernel_path);
}

static json_t *model_json(const fx_model_info *m)
{
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:i}", "name",
                     m->name, "arch", m->arch, "type", m->type, "file_bytes",
                     (json_int_t)m->file_bytes, "n_param", (json_int_t)m->n_param,
                     "kv_bytes_per_tok", (json_int_t)m->kv_bytes_per_tok, "ctx_tok", m->ctx_tok,
                     "n_layer", m->n_layer, "dim", m->dim, "n_head", m->n_head, "n_kv_head",
                     m->n_kv_head, "head_dim", m->head_dim);
}

int fxi_bench_print_json(const fxi_bench *b)
{
    json_t *all = json_pack("{s:s, s:o, s:o, s:i, s:o, s:o}", "version", fx_version(), "model",
                            model_json(&b->model), "machine", machine_json(b), "repeat",
                            b->o->n_repeat, "prompt", prompt_json(b), "decode", decode_json(b));
    if (!all) return fxi_cli_fail("no memory for the JSON text");
    json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    printf("\n");
    json_decref(all);
    return 0;
}
