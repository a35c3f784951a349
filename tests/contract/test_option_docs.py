"""`docs/options.md` says which option is which flag of which engine; its table is what the code says."""

from pathlib import Path

from engines.dynamo.launch import TABLE as DYNAMO
from engines.flags import WORDS, Table
from engines.llama_cpp.binary import TABLE as LLAMA_SERVER
from engines.lmdeploy.launch import TABLE as LMDEPLOY
from engines.mlc_llm.launch import TABLE as MLC_LLM
from engines.mlx_lm.launch import TABLE as MLX_LM
from engines.mlx_vlm.launch import TABLE as MLX_VLM
from engines.sglang.launch import TABLE as SGLANG
from engines.tensorrt_llm.launch import TABLE as TENSORRT_LLM
from engines.tgi.launch import TABLE as TGI
from engines.vllm.launch import TABLE as VLLM

PAGE = Path(__file__).resolve().parents[2] / "docs" / "options.md"
TABLES = (LLAMA_SERVER, MLX_LM, MLX_VLM, VLLM, SGLANG, LMDEPLOY, TENSORRT_LLM, MLC_LLM, DYNAMO, TGI)


def cell(table: Table, option: str) -> str:
    rows = [flag for flag in table.flags if flag.option == option]
    if not rows:
        return "refused"
    names = " ".join(f"`{name}`" for row in rows for name in row.names if name.startswith("--"))
    return names or "by other means"


def row(option: str) -> str:
    return f"| {WORDS[option]} (`{option}`) | {' | '.join(cell(table, option) for table in TABLES)} |"


def test_the_table_is_what_the_code_says() -> None:
    page = PAGE.read_text(encoding="utf-8").splitlines()
    head = f"| option | {' | '.join(table.engine for table in TABLES)} |"
    missing = [line for line in (head, *map(row, WORDS)) if line not in page]
    assert not missing, "\n".join(missing)


def test_no_engine_has_two_rows_for_an_option() -> None:
    for table in TABLES:
        options = [flag.option for flag in table.flags]
        assert len(options) == len(set(options)), table.engine
