// fuzz_sentencepiece.c - SentencePiece models: any bytes give a vocabulary that works or a one-line
// error.
#include "fuzz_vocab_file.h"
#include "unit/format/protobuf_bytes.h"

FUZZ_TARGET(fuzz_sentencepiece);

int fuzz_sentencepiece_run(const uint8_t *data, size_t n_bytes)
{
    fxi_vocab_spec s;
    fx_error err = {.text = ""};
    fxi_vocab_spec_init(&s, "fuzz");
    fx_status st = fxi_vocab_read_sentencepiece(data, n_bytes, &s, &err);
    fuzz_try_spec(&s, st, &err);
    return 0;
}

// A short model: mutations hit its fields.
static void put_small(fxi_buf *b, unsigned model_type)
{
    fxi_buf trainer = {0}, norm = {0};
    pb_piece(b, "<unk>", 0, 2);
    pb_piece(b, "<s>", 0, 3);
    pb_piece(b, "</s>", 0, 3);
    pb_piece(b, "\xE2\x96\x81", -3, 1);
    pb_piece(b, "a", -2, 1);
    pb_piece(b,
             "\xE2\x96\x81"
             "a",
             -1, 1);
    pb_piece(b, "123", -1, 4);
    pb_piece(b, "<0x41>", 0, 6);
    pb_number(&trainer, 3, model_type);
    pb_number(&trainer, 35, 1);
    pb_number(&trainer, 41, 1);
    pb_message(b, 2, &trainer);
    pb_number(&norm, 3, 1);
    pb_number(&norm, 4, 1);
    pb_message(b, 3, &norm);
}

bool fuzz_sentencepiece_seed(unsigned i, fxi_buf *out)
{
    static const char *const files[] = {"bpe.model", "unigram.model", "unigram_bytes.model"};
    if (i < 2) {
        put_small(out, i + 1);
        return true;
    }
    return i - 2 < sizeof files / sizeof *files && fuzz_seed_file(files[i - 2], out);
}
