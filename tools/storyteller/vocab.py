"""The vocabulary: sentencepiece trains it, and this file tokenises with it just as GGUF's "llama" tokenizer does.

Ids: 0 <unk>, 1 <s>, 2 </s>, 3..258 the bytes, then the two marks of the chat form, then the pieces by falling score.
A text is cut into characters (blanks written as U+2581), and the adjacent pair whose concatenation is a piece with
the highest score is merged, leftmost first, until no pair is left; whatever is not a piece is then split into bytes.
As no piece crosses the beginning of a word, each word can be merged on its own and remembered.
"""

import json
import re

UNK, BOS, EOS, FIRST_BYTE = 0, 1, 2, 3
IM_START, IM_END = "<|im_start|>", "<|im_end|>"
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # GGUF's token types
BLANK = "\u2581"
_WORDS = re.compile(f"{BLANK}?[^{BLANK}]*")


class Vocab:
    def __init__(self, pieces, scores, marks=()):
        """pieces and scores of the normal tokens; marks are control tokens."""
        special = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
        special += [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)]
        special += [(mark, 0.0, CONTROL) for mark in marks]
        entries = special + [(piece, score, NORMAL) for piece, score in zip(pieces, scores)]
        self.tokens, self.scores, self.types = (list(column) for column in zip(*entries))
        self.id_of = {token: index for index, token in enumerate(self.tokens)}
        self._normal = {piece: len(special) + i for i, piece in enumerate(pieces)}
        self._seen = {}

    def __len__(self):
        return len(self.tokens)

    def encode(self, text, dummy_prefix):
        """Ids of a text segment; the first segment of a prompt gets the dummy prefix, one after a mark does not."""
        text = (" " + text if dummy_prefix and text else text).replace(" ", BLANK)
        return [token for word in _WORDS.findall(text) for token in self._encode_word(word)]

    def encode_chat(self, turns):
        """Ids of a whole conversation of (role, text) turns, and a final newline after each turn but the last."""
        ids, newline = [BOS], self.encode("\n", False)
        for role, text in turns:
            ids += newline if len(ids) > 1 else []
            ids += self.chat_head(role) + self.encode(text, False) + [self.id_of[IM_END]]
        return ids

    def chat_head(self, role):
        return [self.id_of[IM_START]] + self.encode(role + "\n", False)

    def encode_document(self, document):
        """Ids of one line that stories.py writes."""
        if "chat" in document:
            return self.encode_chat(document["chat"])
        return [BOS] + self.encode(document["text"], True) + [EOS]

    def decode(self, ids):
        data = b"".join(self._bytes_of(token) for token in ids)
        return data.decode("utf-8", "replace").removeprefix(" ")

    def _bytes_of(self, token):
        if self.types[token] == BYTE:
            return bytes([token - FIRST_BYTE])
        return b"" if token <= EOS else self.tokens[token].replace(BLANK, " ").encode()

    def _encode_word(self, word):
        if word not in self._seen:
            self._seen[word] = self._merge(word)
        return self._seen[word]

    def _merge(self, word):
        parts = list(word)
        while (best := self._best_pair(parts)) is not None:
            parts[best : best + 2] = [parts[best] + parts[best + 1]]
        return [token for part in parts for token in self._ids_of_part(part)]

    def _best_pair(self, parts):
        candidates = [
            (-self.scores[self._normal[pair]], at)
            for at in range(len(parts) - 1)
            if (pair := parts[at] + parts[at + 1]) in self._normal
        ]
        return min(candidates)[1] if candidates else None

    def _ids_of_part(self, part):
        if part in self._normal:
            return [self._normal[part]]
        return [FIRST_BYTE + byte for byte in part.encode()]


def train(texts, size):
    """Trains a BPE vocabulary of `size` tokens with the marks of the chat form."""
    import io
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line for text in texts for line in (" " + text).split("\n") if line),
        model_writer=model,
        model_type="bpe",
        vocab_size=size - 2,
        byte_fallback=True,
        character_coverage=1.0,
        add_dummy_prefix=False,  # only the first line of a text has one, which is added above
        remove_extra_whitespaces=False,
        normalization_rule_name="identity",
        split_digits=True,
        minloglevel=2,
        num_threads=2,
    )
    trained = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = range(FIRST_BYTE + 256, trained.get_piece_size())
    return Vocab([trained.id_to_piece(i) for i in ids], [trained.get_score(i) for i in ids], (IM_START, IM_END))


def save(vocab, path):
    normal = [i for i, kind in enumerate(vocab.types) if kind == NORMAL]
    marks = [token for token, kind in zip(vocab.tokens[FIRST_BYTE:], vocab.types[FIRST_BYTE:]) if kind == CONTROL]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(
            {
                "pieces": [vocab.tokens[i] for i in normal],
                "scores": [vocab.scores[i] for i in normal],
                "marks": marks,
            },
            file,
        )


def load(path):
    with open(path, encoding="utf-8") as file:
        return Vocab(**json.load(file))
