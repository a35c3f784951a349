"""Cut texts with chonkie: a program for an environment of its own. JSON in, on standard input; spans out, as JSON.

    {"splitter": "token", "size": 1200, "overlap": 150, "texts": ["..."]} -> [[[0, 1200], ...]]

Sizes are in characters, as ours are.
"""

import json
import sys

from chonkie import RecursiveChunker, SentenceChunker, TokenChunker


def main() -> None:
    """Cut what standard input has."""
    work = json.load(sys.stdin)
    size, overlap = work["size"], work["overlap"]
    chunkers = {
        "token": lambda: TokenChunker(tokenizer="character", chunk_size=size, chunk_overlap=overlap),
        "sentence": lambda: SentenceChunker(tokenizer="character", chunk_size=size, chunk_overlap=overlap),
        "recursive": lambda: RecursiveChunker(tokenizer="character", chunk_size=size),
    }
    chunker = chunkers[work["splitter"]]()
    spans = [[[chunk.start_index, chunk.end_index] for chunk in chunker.chunk(text)] for text in work["texts"]]
    json.dump(spans, sys.stdout)


if __name__ == "__main__":
    main()
