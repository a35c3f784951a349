"""Has Python see a card where there is none, for the real libraries (`tests.real_engines.exllama_on_cpu`)."""

import sys

import cuda_on_cpu
import paged_kernels

cuda_on_cpu.pretend_card()
cuda_on_cpu.pass_as_compiled("exllamav3_ext")
sys.modules["exllamav3.modules.attention_fn.triton_paged"] = paged_kernels
