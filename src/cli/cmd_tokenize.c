#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "format/vocab.h"

static fx_status read_all(FILE *from, fxi_buf *text, fx_error *err)
{
    for (;;) {
        if (!fxi_buf_reserve(text, 1 << 16))
            return fxi_fail(err, FX_ENOMEM, "no memory for the text");
        size_t n = fread(text->p + text->n, 1, 1 << 16, from);
        text->n += n;
        if (n == 0) break;
    }
    if (ferror(from)) return fxi_fail(err, FX_EIO, "cannot read stdin: %s", strerror(errno));
    return FX_OK;
}

static fx_status load_vocab(const char *path, fxi_vocab **vocab, fx_error *err)
{
    fxi_gguf *g;
    FX_TRY(fxi_gguf_open(path, &g, err));
    fx_status st = fxi_vocab_load(g, vocab, err);
    fxi_gguf_close(g);
    return st;
}

static void print_ids(const fxi_ids *ids)
{
    for (size_t i = 0; i < ids->n; i++) printf(i ? " %d" : "%d", (int)ids->id[i]);
    printf("\n");
}

static fx_status tokenize(const fxi_cli_options *o, const fxi_vocab *v, fxi_buf *text, fxi_ids *ids,
                          fx_error *err)
{
    FX_TRY(read_all(stdin, text, err));
    if (!o->no_bos && fxi_vocab_adds_bos(v) && !fxi_ids_add(ids, fxi_vocab_bos(v)))
        return fxi_fail(err, FX_ENOMEM, "no memory for the ids");
    return fxi_vocab_encode(v, text->p, text->n, FXI_ENCODE_SPACE, ids, err);
}

int fxi_cmd_tokenize(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    (void)rest;
    fx_error err;
    fxi_vocab *vocab;
    if (load_vocab(o->model, &vocab, &err) != FX_OK) return fxi_cli_fail("%s", err.text);
    fxi_buf text = {0};
    fxi_ids ids = {0};
    fx_status st = tokenize(o, vocab, &text, &ids, &err);
    if (st == FX_OK) print_ids(&ids);
    fxi_ids_free(&ids);
    fxi_buf_free(&text);
    fxi_vocab_free(vocab);
    return st == FX_OK ? 0 : fxi_cli_fail("%s", err.text);
}
