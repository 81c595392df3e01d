// Stands in for lz4 where its headers are not installed: what FST files need of it, without compression.
#pragma once
#include <cstring>

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

// A block of one sequence, all of it literals: a token, the length in bytes of 255 and a rest, the bytes.
inline int LZ4_compress_default(const char* from, char* to, int size, int /*room*/) {
  char* end = to;
  *end++ = static_cast<char>((size < 15 ? size : 15) << 4);
  if (size >= 15) {
    int rest = size - 15;
    for (; rest >= 255; rest -= 255) *end++ = static_cast<char>(255);
    *end++ = static_cast<char>(rest);
  }
  std::memcpy(end, from, size);
  return static_cast<int>(end - to) + size;
}
