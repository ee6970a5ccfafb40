// cmd_tokenize.c - text on stdin to token ids on stdout, or back.
#include "cli/cli.h"
#include "cli/terminal/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "format/vocab.h"

static fx_status print_ids_of(const fxi_cli_options *o, const fxi_vocab *v, const fxi_buf *text,
                              fx_error *err)
{
    fxi_ids ids = {0};
    fx_status st = FX_OK;
    if (!o->no_bos && fxi_vocab_adds_bos(v) && !fxi_ids_add(&ids, fxi_vocab_bos(v)))
        st = fxi_fail(err, FX_ENOMEM, "out of memory for the ids");
    if (st == FX_OK) st = fxi_vocab_encode(v, text->p, text->n, FXI_ENCODE_SPACE, &ids, err);
    for (size_t i = 0; st == FX_OK && i < ids.n; i++) printf(i ? " %d" : "%d", (int)ids.id[i]);
    if (st == FX_OK) printf("\n");
    fxi_ids_free(&ids);
    return st;
}

// Ids are decimal numbers separated by white space.
static fx_status parse_ids(const fxi_vocab *v, const fxi_buf *text, fxi_ids *ids, fx_error *err)
{
    const char *p = text->p;
    for (;;) {
        char *end;
        p += strspn(p, " \t\r\n");
        if (!*p) break;
        const long id = strtol(p, &end, 10);
        if (end == p || (*end && !strchr(" \t\r\n", *end)))
            return fxi_fail(err, FX_EINVAL, "not a list of ids at byte %zu", (size_t)(p - text->p));
        if (id < 0 || id >= fxi_vocab_size(v))
            return fxi_fail(err, FX_EINVAL, "id %ld, but there are %d tokens", id,
                            fxi_vocab_size(v));
        if (!fxi_ids_add(ids, (int32_t)id))
            return fxi_fail(err, FX_ENOMEM, "out of memory for the ids");
        p = end;
    }
    if ((size_t)(p - text->p) < text->n) // a zero byte
        return fxi_fail(err, FX_EINVAL, "not a list of ids at byte %zu", (size_t)(p - text->p));
    return FX_OK;
}

static fx_status print_text_of(const fxi_vocab *v, const fxi_buf *list, fx_error *err)
{
    fxi_ids ids = {0};
    fxi_buf text = {0};
    fx_status st = parse_ids(v, list, &ids, err);
    if (st == FX_OK && !fxi_vocab_decode(v, ids.id, ids.n, 0, &text))
        st = fxi_fail(err, FX_ENOMEM, "out of memory for the text");
    if (st == FX_OK && text.n) fwrite(text.p, 1, text.n, stdout);
    fxi_ids_free(&ids);
    fxi_buf_free(&text);
    return st;
}

int fxi_cmd_tokenize(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    (void)rest;
    fx_error err;
    fxi_vocab *vocab;
    if (fxi_vocab_open(o->engine.model_path, o->engine.tokenizer_pre, NULL, &vocab, &err) != FX_OK)
        return fxi_cli_fail("%s", err.text);
    if (fxi_vocab_warning(vocab)) fprintf(stderr, "warning: %s\n", fxi_vocab_warning(vocab));
    fxi_buf in = {0};
    fx_status st = fxi_cli_read_text("-", &in, &err);
    if (st == FX_OK)
        st = o->decode ? print_text_of(vocab, &in, &err) : print_ids_of(o, vocab, &in, &err);
    fxi_buf_free(&in);
    fxi_vocab_free(vocab);
    return st == FX_OK ? 0 : fxi_cli_fail("%s", err.text);
}
