/* Included before every file of llama.cpp that is compiled here.

   GCC 12.2, and by its bug 114098 others before 14, take it that `_tile_loadconfig` reads eight bytes of the tile
   configuration it is given, and drop the stores into the other 56: AMX kernels then die of whatever lay on the stack.
   Here the instruction is said to read all 64. */
#if defined(__AMX_TILE__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>
#define _tile_loadconfig(config) __asm__ volatile("ldtilecfg\t%X0" ::"m"(*(const char(*)[64])(config)))
#endif
