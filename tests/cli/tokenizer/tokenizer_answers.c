// tokenizer_answers.c - a vocabulary that stays loaded: test_tokenizers.py compares thousands of
// texts with other libraries, and a process for each would take minutes.
//
//     tokenizer_answers PATH [PRE]
//
//   request on stdin                        answer on stdout
//   "E FLAGS N\n", then N bytes of text     "N\n", then N ids of 4 bytes; "-1 ERROR\n"
//   "D FLAGS N\n", then N ids of 4 bytes    "N\n", then N bytes of text
//
// FLAGS: of fxi_vocab_encode and fxi_vocab_decode. After loading it prints three lines: the number
// of tokens, the id before every text and the id after it (each plus one; 0: none). Or it prints
// "-1 ERROR\n".
#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "format/vocab.h"

static bool read_exactly(void *p, size_t n)
{
    return fread(p, 1, n, stdin) == n;
}

static void answer_encode(const fxi_vocab *v, unsigned flags, const char *text, size_t n)
{
    fxi_ids ids = {0};
    fx_error err = {.text = ""};
    if (fxi_vocab_encode(v, text, n, flags, &ids, &err) != FX_OK) {
        printf("-1 %s\n", err.text);
    } else {
        printf("%zu\n", ids.n);
        if (ids.n) fwrite(ids.id, sizeof *ids.id, ids.n, stdout);
    }
    fxi_ids_free(&ids);
}

static void answer_decode(const fxi_vocab *v, unsigned flags, const char *ids, size_t n_id)
{
    fxi_buf text = {0};
    if (!fxi_vocab_decode(v, (const int32_t *)(const void *)ids, n_id, flags, &text)) abort();
    printf("%zu\n", text.n);
    if (text.n) fwrite(text.p, 1, text.n, stdout);
    fxi_buf_free(&text);
}

static bool answer(const fxi_vocab *v)
{
    char what;
    unsigned flags;
    size_t n;
    if (scanf("%c %u %zu", &what, &flags, &n) != 3 || getchar() != '\n') return false;
    const size_t n_bytes = what == 'D' ? n * sizeof(int32_t) : n;
    char *body = malloc(n_bytes + 1);
    const bool good = body && read_exactly(body, n_bytes);
    if (good && what == 'D') answer_decode(v, flags, body, n);
    if (good && what == 'E') answer_encode(v, flags, body, n);
    free(body);
    fflush(stdout);
    return good;
}

int main(int argc, char **argv)
{
    fxi_vocab *v;
    fx_error err;
    if (argc < 2) return 2;
    if (fxi_vocab_open(argv[1], argc > 2 ? argv[2] : NULL, NULL, &v, &err) != FX_OK) {
        printf("-1 %s\n", err.text);
        return 1;
    }
    printf("%d\n%d\n%d\n", fxi_vocab_size(v), fxi_vocab_adds_bos(v) ? fxi_vocab_bos(v) + 1 : 0,
           fxi_vocab_adds_eos(v) ? fxi_vocab_eos(v) + 1 : 0);
    fflush(stdout);
    while (answer(v)) continue;
    fxi_vocab_free(v);
    return 0;
}
