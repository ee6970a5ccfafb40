// bench_tokenizer - how fast text is encoded and decoded, in one thread.
//
//   bench_tokenizer [--pre NAME] [--runs N] VOCABULARY.. -- TEXT..
//
// CSV on stdout: vocabulary,text,bytes,ids,encode_mb_s,decode_mb_s,p10_encode_mb_s,load_ms. Rates
// are the median and the slowest tenth of N runs (default 9) over the whole text in one call; MB
// are 10^6 bytes of text. --pre names the pre-tokenizer of rank files, which do not name it
// themselves. A text that cannot be encoded ("bad UTF-8 at byte 17") ends the program with a line
// on stderr.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "figures.h"
#include "format/vocab.h"

typedef struct options {
    const char *pre;
    int n_run;
    char **vocab, **text;
    int n_vocab, n_text;
} options;

typedef struct text {
    const char *path;
    fxi_buf b;
} text;

static text read_text_file(const char *path)
{
    text t = {.path = path};
    FILE *f = fopen(path, "rb");
    if (!f) die("%s: cannot be opened", path);
    for (size_t n = 1; n;) {
        if (!fxi_buf_reserve(&t.b, 1 << 16)) die("%s: no memory", path);
        n = fread(t.b.p + t.b.n, 1, 1 << 16, f);
        t.b.n += n;
    }
    fclose(f);
    return t;
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// A file's name, with its folder's if it is tokenizer.*.
static const char *short_name(const char *path)
{
    const char *name = file_name(path);
    if (strncmp(name, "tokenizer.", 10) || name < path + 2) return name;
    for (name -= 2; name > path && name[-1] != '/';) name--;
    return name;
}

static double encode_once(const fxi_vocab *v, const text *t, fxi_ids *ids)
{
    fx_error err;
    ids->n = 0;
    double start = now_ns();
    if (fxi_vocab_encode(v, t->b.p, t->b.n, FXI_ENCODE_SPACE, ids, &err) != FX_OK)
        die("%s: %s", t->path, err.text);
    return (double)t->b.n * 1e3 / (now_ns() - start);
}

static double decode_once(const fxi_vocab *v, const fxi_ids *ids, fxi_buf *out)
{
    fxi_buf_clear(out);
    double start = now_ns();
    if (!fxi_vocab_decode(v, ids->id, ids->n, 0, out)) die("decoding: no memory");
    return (double)out->n * 1e3 / (now_ns() - start);
}

static void measure_text(const options *o, const char *path, const fxi_vocab *v, double load_ms,
                         const text *t)
{
    samples encode = {0}, decode = {0};
    fxi_ids ids = {0};
    fxi_buf out = {0};
    for (int i = 0; i < o->n_run; i++) {
        samples_add(&encode, encode_once(v, t, &ids));
        samples_add(&decode, decode_once(v, &ids, &out));
    }
    printf("%s,%s,%zu,%zu,%.2f,%.2f,%.2f,%.0f\n", short_name(path), file_name(t->path), t->b.n,
           ids.n, samples_at(&encode, 0.5), samples_at(&decode, 0.5), samples_at(&encode, 0.1),
           load_ms);
    fflush(stdout);
    samples_free(&encode);
    samples_free(&decode);
    fxi_ids_free(&ids);
    fxi_buf_free(&out);
}

static void bench_vocab(const options *o, const char *path, const text *texts)
{
    fx_error err;
    fxi_vocab *v;
    double start = now_ns();
    fx_status st = fxi_vocab_open(path, NULL, NULL, &v, &err);
    if (st != FX_OK && o->pre) st = fxi_vocab_open(path, o->pre, NULL, &v, &err);
    if (st != FX_OK) die("cannot load: %s", err.text);
    double load_ms = (now_ns() - start) / 1e6;
    for (int i = 0; i < o->n_text; i++) measure_text(o, path, v, load_ms, &texts[i]);
    fxi_vocab_free(v);
}

static bool parse_options(int argc, char **argv, options *o)
{
    int i = 1;
    for (; i + 1 < argc && !strncmp(argv[i], "--", 2) && argv[i][2]; i += 2) {
        if (!strcmp(argv[i], "--pre"))
            o->pre = argv[i + 1];
        else if (!strcmp(argv[i], "--runs"))
            o->n_run = atoi(argv[i + 1]);
        else
            return false;
    }
    o->vocab = argv + i;
    while (i < argc && strcmp(argv[i], "--") != 0) i++, o->n_vocab++;
    if (i++ == argc) return false;
    o->text = argv + i;
    o->n_text = argc - i;
    return o->n_run > 0 && o->n_vocab && o->n_text;
}

int main(int argc, char **argv)
{
    options o = {.n_run = 9};
    if (!parse_options(argc, argv, &o)) {
        fputs("usage: bench_tokenizer [--pre NAME] [--runs N] VOCABULARY.. -- TEXT..\n", stderr);
        return 2;
    }
    text *texts = need(calloc((size_t)o.n_text, sizeof *texts));
    for (int i = 0; i < o.n_text; i++) texts[i] = read_text_file(o.text[i]);
    printf("vocabulary,text,bytes,ids,encode_mb_s,decode_mb_s,p10_encode_mb_s,load_ms\n");
    for (int i = 0; i < o.n_vocab; i++) bench_vocab(&o, o.vocab[i], texts);
    for (int i = 0; i < o.n_text; i++) fxi_buf_free(&texts[i].b);
    free(texts);
    return 0;
}
