"""Makes two small models as model2vec writes them, and what model2vec makes of some texts with them.

    pip install model2vec && python3 make.py

The models are small and mean nothing: what is tested is that a text has the same tokens and the same
vector here as there.
"""

import json
from pathlib import Path

import numpy as np
from model2vec import StaticModel
from model2vec.persistence.persistence import save_pretrained
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

HERE = Path(__file__).parent

WORDS = """the a dog cat puppy is called rex runs in to of and what my name deploy muller cafe naive
strasse zurich hello world don t s e mail 2026 10 3 1 com http user ok . , : ; ! ? ' " - _ / @ # ( ) «
» … – „ “ 、 。 東 京 犬 ελλαδα привет мир istanbul İstanbul Café""".split()
PIECES = "s ed ing ment er est un do ##x ly able ion al 0 1 2 5 00 a b e i n o r t".split()

TEXTS = [
    "The dog is called Rex.",
    "the cat runs to the puppy",
    "Deployed deployment deploying DEPLOYS",
    "Müller's naïve CAFÉ",
    "e\u0301 Zu\u0308rich",
    "don't e-mail user@http.com!",
    "2026-10-3 and 1001",
    "東京 犬。 東x犬",
    "Ελλάδα Привет, мир",
    "İstanbul",
    "«hello» … – world „ok“",
    "a\u00adb zero\u200bwidth tab\there\nand\r\nthere",
    "cat\u0000dog \ufffd \ue000 user",
    "xyzzy plugh",
    "xyzzy dog",
    "",
    "   ",
    "!?",
    "un" * 60,
    "un" * 50,
    "the " * 600 + "dog " * 600,
    "hello_world #1 (a/b)",
    "straße",
    "🐶 dog 🐶cat",
    "ﬁne ＡＢ １ ½",
    "dog\u3000cat\u2003rex",
]


def tokenizer(lowercase, strip_accents):
    vocab = ["[PAD]", "[UNK]", *dict.fromkeys(WORDS)]
    vocab += [f"##{piece.removeprefix('##')}" for piece in PIECES]
    vocab += [letter for letter in "abdu" if letter not in vocab]
    vocab = {token: at for at, token in enumerate(dict.fromkeys(vocab))}
    made = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    made.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=strip_accents, lowercase=lowercase
    )
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made, len(vocab)


def make(name, lowercase, strip_accents, packed):
    random = np.random.default_rng(9)
    made, count = tokenizer(lowercase, strip_accents)
    weights = mapping = None
    if packed:
        vectors = random.standard_normal((count // 2, 8)).astype(np.float16)
        weights = random.uniform(0.1, 2.0, count)
        mapping = random.integers(0, count // 2, count)
    else:
        vectors = random.standard_normal((count, 8)).astype(np.float32)
    folder = HERE / name
    save_pretrained(
        folder_path=folder, embeddings=vectors, tokenizer=made, config={"normalize": True},
        weights=weights, mapping=mapping,
    )
    model = StaticModel.from_pretrained(folder, normalize=False)
    vectors = [vector.astype(float).tolist() for vector in model.encode(TEXTS)]
    for left in folder.iterdir():
        if left.name not in ("tokenizer.json", "model.safetensors", "config.json"):
            left.unlink()
    return [{"text": text, "vector": vector} for text, vector in zip(TEXTS, vectors)]


expected = {
    "plain": make("plain", lowercase=True, strip_accents=None, packed=False),
    "packed": make("packed", lowercase=False, strip_accents=False, packed=True),
}
lines = json.dumps(expected, ensure_ascii=True, indent=None, separators=(",", ":"))
(HERE / "expected.json").write_text(lines.replace("},{", "},\n{") + "\n")
